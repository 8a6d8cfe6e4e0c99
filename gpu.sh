#!/bin/bash
# Chains in hybrids on a GPU; the full-size cell, killed and resumed; cells without space.
export PYTHONPATH=$PWD/src:$PWD/tests/support:$PWD/examples:$PWD/scripts/benchmarks
OUT=${OUT:-/tmp/out}; mkdir -p $OUT
cat > /tmp/chain_bits.py <<'P'
import sys, time, tauslab as ts
from chain_factory import cell
dev = sys.argv[1]; t = time.perf_counter()
made = cell(objects=True)
r = ts.run(made, t_end=4.5, seed=5, pilot=0, n=2, device=dev, quiet=True)
print("chain bits", dev, r.digest()[:16], len(r.divisions), f"{time.perf_counter()-t:.1f} s", flush=True)
P
cat > /tmp/full.py <<'P'
import sys, time, tauslab as ts
from minimal_cell import Cell, Size
t = time.perf_counter()
h = Cell(Size()).hybrid()
r = ts.run(h, t_end=float(sys.argv[2]), seed=1, pilot=0, device="cuda", output=sys.argv[1], resume=True, checkpoint_every=1.0, quiet=True)
print("full", sys.argv[1], r.digest()[:16], f"{time.perf_counter()-t:.1f} s", flush=True)
P
(timeout 120 python3 scripts/validate.py stirred-cells --n 50 --t-end 120 --device cpu > $OUT/stirred_cpu.txt 2>&1; tail -12 $OUT/stirred_cpu.txt | head -4 > $OUT/stirred_cpu_head.txt) &
SC=$!
(timeout 100 python3 /tmp/chain_bits.py cpu) &
CB=$!
timeout 60 python3 /tmp/chain_bits.py cuda
timeout 50 python3 scripts/benchmarks/measure_minimal_cell.py --seconds 16 --device cuda 2>&1 | tail -12
wait $CB
timeout 60 python3 /tmp/full.py /tmp/whole.h5 12
python3 /tmp/full.py /tmp/cut.h5 12 & P=$!
for i in $(seq 80); do sleep 0.5; [ -e /tmp/cut.h5.checkpoint ] && break; done; sleep 2; kill -9 $P; wait $P 2>/dev/null; ls -la /tmp/cut.h5*
timeout 60 python3 /tmp/full.py /tmp/cut.h5 12
timeout 45 python3 scripts/validate.py stirred-cells --n 1000 --t-end 60 --device cuda 2>&1 | tail -14
wait $SC
echo "--- stirred cpu"; grep -m1 "cells for" $OUT/stirred_cpu.txt || tail -3 $OUT/stirred_cpu.txt
