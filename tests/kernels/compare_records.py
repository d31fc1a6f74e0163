# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare records in this process and print a JSON object for each: run as a program, so that the tier is chosen anew."""

import json
import sys
from pathlib import Path

from bankml.core.oracle.record import read_record
from bankml.core.oracle.run import compare_record


def main() -> None:
    for name in sys.argv[1:]:
        tally = compare_record(read_record(Path(name)))
        print(json.dumps({"record": Path(name).name, **vars(tally)}), flush=True)
    from bankml.kernels.isa import TIER

    print(json.dumps({"tier": TIER}))


if __name__ == "__main__":
    main()
