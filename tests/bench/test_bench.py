# SPDX-License-Identifier: MIT OR Apache-2.0
import json
import os
import sys
from types import SimpleNamespace

import pytest

from bankml.bench import kernels, process, start
from bankml.bench.process import machine_facts, peak_resident_bytes, run_measured
from bankml.bench.samples import Samples
from bankml.cli.main import main
from bankml.refusal import Refusal

pytestmark = pytest.mark.long


def test_samples():
    samples = Samples.of([3.0, 1.0, 2.0])
    assert samples.median == 2.0
    assert samples.spread == (1.0, 3.0)
    assert samples.text() == "2.0 (1.0-3.0)"
    assert samples.as_dict("x") == {"x": 2.0, "x_spread": [1.0, 3.0], "x_samples": [3.0, 1.0, 2.0]}


def test_ratios_are_taken_round_by_round():
    assert Samples.of([3.0, 30.0]).over(Samples.of([2.0, 20.0])).values == (1.5, 1.5)


def test_a_process_is_measured(monkeypatch, tmp_path):
    held = bytearray(b"x") * 300_000_000
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    look = process.peak_resident_bytes

    def seen(pid):
        """What is seen of the process; once that is all of its memory, it may end."""
        peak = look(pid) or 0
        if peak > 50_000_000 and gate.exists():
            gate.write_bytes(b"")
            gate.unlink()
        return peak

    monkeypatch.setattr(process, "peak_resident_bytes", seen)
    program = "import sys; print('x' * 10); b = bytearray(b'x') * 50_000_000; open(sys.argv[1]).read()"
    done = run_measured([sys.executable, "-c", program, str(gate)], os.environ, "it")
    assert done.stdout == b"x" * 10 + b"\n"
    assert done.first_byte_seconds > 0
    # Its own memory, and not that of the process which started it.
    assert 50_000_000 < done.resident_bytes < 200_000_000 < len(held)


def test_a_process_that_fails_is_refused_with_its_last_line():
    with pytest.raises(Refusal, match="it failed") as refused:
        run_measured([sys.executable, "-c", "import sys; sys.exit('no such model')"], os.environ, "it")
    assert "no such model" in refused.value.line()


def test_machine_facts_can_be_written():
    assert json.dumps(machine_facts())
    assert peak_resident_bytes() > 10_000_000


def test_nothing_to_measure_is_a_usage_error(capsys):
    assert main(["bench", "model", "-p", "0", "-n", "0"]) == 1
    assert "nothing to measure" in capsys.readouterr().err


def test_bench_model_reports_in_llama_benchs_terms(smollm2, capsys):
    assert main(["bench", "model", str(smollm2), "-p", "40", "-n", "3", "-r", "2", "-d", "5", "--threads", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["prompt"], report["generate"], report["depth"], report["rounds"]) == (40, 3, 5, 2)
    assert len(report["pp_tokens_per_second_samples"]) == len(report["tg_tokens_per_second_samples"]) == 2
    assert report["pp_tokens_per_second"] > 0
    # Everything but the header: the embedding is the output too.
    assert 0.95 < report["bytes_per_token"] / smollm2.stat().st_size < 1
    assert "reference" not in report


def test_bench_model_prints_a_table(smollm2, capsys):
    assert main(["bench", "model", str(smollm2), "-p", "8", "-n", "1", "-r", "1", "--threads", "1"]) == 0
    printed = capsys.readouterr().out
    assert "prefill 8, tokens/s" in printed
    assert "decode 1, tokens/s" in printed


def test_depths_are_measured_one_after_the_other(smollm2, capsys, tmp_path):
    drawing = tmp_path / "depths.svg"
    arguments = ["-p", "8", "-n", "1", "-r", "1", "-d", "0,1k", "--threads", "1", "--json", "--plot", str(drawing)]
    assert main(["bench", "model", str(smollm2), *arguments]) == 0
    reports = json.loads(capsys.readouterr().out)["depths"]
    assert [report["depth"] for report in reports] == [0, 1024]
    for report in reports:
        assert report["first_token_seconds_cold"] > 0 < report["first_token_seconds_warm"]
        assert report["share_of_memory"] == pytest.approx(
            report["bytes_per_token"] * report["tg_tokens_per_second"] / report["memory_read_bytes_per_second"]
        )
    assert drawing.read_bytes().startswith(b"<?xml")


def firsts(order, sides):
    """Which side began each round, where every round has each of them."""
    rounds = [order[at : at + sides] for at in range(0, len(order), sides)]
    assert all(len(set(each)) == sides for each in rounds)
    return [each[0] for each in rounds]


def test_the_side_that_begins_a_start_changes_from_round_to_round(smollm2, monkeypatch):
    order = []
    monkeypatch.setattr(start, "_our_start", lambda *_: order.append("ours") or (1.0, 2))
    monkeypatch.setattr(start, "_their_start", lambda *_: order.append("theirs") or (4.0, 2))
    measured = start.measure_start(smollm2, 256, 1, 4, SimpleNamespace(facts=dict))
    assert firsts(order[1:], 2) == ["ours", "theirs"] * 2
    told = measured.as_dict()
    assert (told["first_token_ratio_samples"], told["resident_bytes_samples"]) == ([0.25] * 4, [2] * 4)


def test_the_side_that_begins_a_product_changes_from_round_to_round(monkeypatch):
    order = []
    monkeypatch.setattr(kernels, "_fastest", lambda run: run() or 1.0)
    sides = {name: lambda name=name: order.append(name) for name in ("ours", "theirs", "floor")}
    seconds = kernels._in_turn(sides, 4)
    assert firsts(order[3:], 3) == ["ours", "floor"] * 2
    assert {name: samples.values for name, samples in seconds.items()} == dict.fromkeys(sides, (1.0,) * 4)


def test_a_depth_that_is_no_number_is_a_usage_error(capsys):
    assert main(["bench", "model", "-d", "1k,much"]) == 1
    assert "'much' is not a number of tokens" in capsys.readouterr().err


def test_bench_memory(capsys):
    assert main(["bench", "memory", "-r", "2", "--threads", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (one,) = report["memory"]
    assert one["threads"] == 1
    assert one["best_bytes_per_second"] == max(one["bytes_per_second_samples"]) > 0


def test_bench_kernels_without_a_reference(capsys, tmp_path):
    drawing = tmp_path / "kernels.png"
    shape = ["--rows", "256", "--columns", "512", "-r", "2", "--threads", "1"]
    assert main(["bench", "kernels", "--type", "q8_0", "--type", "F16", *shape, "--json", "--plot", str(drawing)]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [(cell["type"], cell["columns"]) for cell in cells] == [("Q8_0", 1), ("Q8_0", 32), ("F16", 1), ("F16", 32)]
    assert cells[0]["weight_bytes"] == 256 * 512 // 32 * 34
    assert cells[0]["ns_per_block_median"] >= cells[0]["ns_per_block_min"] > 0
    assert drawing.read_bytes().startswith(b"\x89PNG")


def test_bench_kernels_takes_a_matrix_of_one_block(capsys):
    shape = ["--rows", "1", "--columns", "32", "-r", "1", "--threads", "1"]
    assert main(["bench", "kernels", "--type", "q8_0", *shape, "--json"]) == 0
    assert [cell["weight_bytes"] for cell in json.loads(capsys.readouterr().out)["cells"]] == [34, 34]


@pytest.mark.parametrize("columns", ["1", "33", "4097"])
def test_a_row_that_is_not_whole_blocks_is_refused(capsys, columns):
    assert main(["bench", "kernels", "--type", "Q8_0", "--rows", "1", "--columns", columns, "-r", "1", "--threads", "1"]) == 2
    assert "a multiple of 32" in capsys.readouterr().err


def test_bench_kernels_refuses_an_unknown_type_and_an_unknown_drawing(capsys, tmp_path):
    assert main(["bench", "kernels", "--type", "Q9"]) == 2
    assert "Q9" in capsys.readouterr().err
    assert main(["bench", "kernels", "--plot", str(tmp_path / "x.gif")]) == 1
    assert ".svg, .png, .pdf" in capsys.readouterr().err


def test_bench_constrain(smollm2, capsys):
    assert main(["bench", "constrain", str(smollm2), "-r", "1", "--threads", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["vocabulary"] == 49152
    assert told["rules"] >= 100
    assert 0 < told["masks"]["median"] <= told["masks"]["worst"]
    assert told["token"]["values"][0] > 0
    assert all(told[name]["values"][0] > 0 for name in ("trie", "schema", "chain", "logprobs"))


def test_bench_constrain_on_a_vocabulary_alone(capsys, tmp_path):
    from bankml.core.gguf.types import ARRAY, I32, STRING, U32
    from bankml.core.gguf.writer import write_gguf

    tokens = ["<|end|>", *(chr(point) for point in range(33, 127)), "\u0120", "\u010a"]
    keys = [
        ("general.architecture", STRING, "llama"),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "smollm"),
        ("tokenizer.ggml.tokens", (ARRAY, STRING), tokens),
        ("tokenizer.ggml.token_type", (ARRAY, I32), [3] + [1] * (len(tokens) - 1)),
        ("tokenizer.ggml.merges", (ARRAY, STRING), []),
        ("tokenizer.ggml.eos_token_id", U32, 0),
    ]
    write_gguf(tmp_path / "vocabulary.gguf", keys, [])
    assert main(["bench", "constrain", str(tmp_path / "vocabulary.gguf"), "-r", "1"]) == 0
    said = capsys.readouterr().out
    assert f"{len(tokens)} tokens" in said
    assert "a token of the model" not in said
