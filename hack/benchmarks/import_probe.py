"""The cost of an import: `import_probe.py MODULE...`, with the start of the interpreter."""

import importlib
import sys
import time

began = time.perf_counter()
for name in sys.argv[1:]:
    importlib.import_module(name)
seconds = time.perf_counter() - began
spent = time.process_time()
with open("/proc/self/status") as status:  # noqa: PTH123 - pathlib is an import that others may do without
    memory = {line.split()[0].rstrip(":"): line.split()[1] for line in status if line.startswith("Vm")}
# By hand, because the probe's own imports would be count_writes as the contender's.
print(
    f'{{"seconds": {seconds}, "cpu_seconds": {spent},'
    f' "rss_after_kb": {memory["VmRSS"]}, "peak_rss_kb": {memory["VmHWM"]}}}'
)
