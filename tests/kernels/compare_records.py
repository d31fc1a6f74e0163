# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare records in this process, a JSON object for each and a last line: run as a program, so that the tier is chosen anew.

    BANKML_ISA=avx2 python -m tests.kernels.compare_records tests/records/kernels*.json.gz

Records of a model's own tensors are passed over. Exit code 0 only when everything is identical.
"""

import json
import sys
from pathlib import Path

from bankml.core.exact.products import TYPE_IDS
from bankml.core.gguf.types import TYPES
from bankml.core.model.compile import compile_kernels
from bankml.oracle.record import read_record
from bankml.oracle.run import compare_record


def main() -> int:
    records = {name: read_record(Path(name)) for name in sys.argv[1:]}
    named = {matrix["type"] for record in records.values() for matrix in record.body.get("matrices", ())}
    # Several processes compile them faster than this one would as it goes.
    compile_kernels([(number, rows) for number in TYPE_IDS if TYPES[number].name in named for rows in (8, 9)], "q8_0")
    identical = total = 0
    for name, record in records.items():
        if record.model_sha256 is not None:
            continue
        tally = compare_record(record)
        identical, total = identical + tally.identical, total + tally.total
        print(json.dumps({"record": Path(name).name, **vars(tally)}), flush=True)
    from bankml.kernels.compiler.isa import TIER

    print(f"{TIER}-tier: {identical} of {total} identical")
    return 0 if total and identical == total else 1


if __name__ == "__main__":
    sys.exit(main())
