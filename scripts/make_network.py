"""Write a network made by rule as a TOML model.

    python scripts/make_network.py random --species 33 --reactions 35 --rates 1e-6:10 -o m.toml
    python scripts/make_network.py random --reactions 10000 --dependents 12 -o m.toml
    python scripts/make_network.py chain 1000 -o chain.toml
    python scripts/make_network.py colloidal 252 -o colloidal.toml
    python scripts/make_network.py synthetic 4 -o synthetic4.toml

`tauslab.random_network`, `cyclic_chain`, `colloidal_aggregation` and `synthetic_equations` say what
the options mean.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import tauslab as ts
from tauslab.model.network.canonical import canonical_text

sys.path.insert(1, str(Path(__file__).resolve().parent / "benchmarks"))
from synthetic_equations import synthetic_equations


def rates(text: str) -> str | tuple[float, float]:
    """``uniform``, or ``LO:HI``."""
    low, colon, high = text.partition(":")
    return (float(low), float(high)) if colon else text


def parser() -> argparse.ArgumentParser:
    """One sub-command for each kind of network."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = made.add_subparsers(dest="kind", required=True)
    random = kinds.add_parser("random")
    random.add_argument("--reactions", type=int, required=True)
    random.add_argument("--species", type=int)
    random.add_argument("--dependents", type=float)
    random.add_argument("--rates", type=rates, default="uniform", metavar="uniform|LO:HI")
    random.add_argument("--bimolecular", type=float, default=0.5)
    random.add_argument("--initial", type=int, default=1000)
    random.add_argument("--seed", type=int, default=0)
    for kind in ("chain", "colloidal"):
        ruled = kinds.add_parser(kind)
        ruled.add_argument("n", type=int)
        ruled.add_argument("--rate", type=float, default=1.0)
        ruled.add_argument("--initial", type=int, default=1)
    synthetic = kinds.add_parser("synthetic")
    synthetic.add_argument("number", type=int)
    synthetic.add_argument("--seed", type=int, default=0)
    for added in kinds.choices.values():
        added.add_argument("-o", "--output", type=Path, required=True)
    return made


def main(argv: list[str] | None = None) -> int:
    """Make and write; says what was made."""
    arguments = vars(parser().parse_args(argv))
    kind, output = arguments.pop("kind"), arguments.pop("output")
    kinds: dict[str, Callable[..., ts.Network]] = {
        "random": ts.random_network,
        "chain": ts.cyclic_chain,
        "colloidal": ts.colloidal_aggregation,
        "synthetic": synthetic_equations,
    }
    try:
        network = kinds[kind](**arguments)
    except ts.TauslabError as error:
        print(f"make_network: {error}", file=sys.stderr)
        return error.exit_code
    output.write_text(canonical_text(network), encoding="utf-8")
    changes = f"{len(network.reactions)} reactions"
    if network.rates:
        changes = f"{len(network.rates)} equations"
    print(f"{output}: {len(network.species)} species, {changes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
