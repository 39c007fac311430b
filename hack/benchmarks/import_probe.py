"""What an import costs: `import_probe.py MODULE...`, all of the process included, the interpreter's start as well."""

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
# By hand, because the probe's own imports would be counted as the contender's.
print(
    f'{{"seconds": {seconds}, "cpu_seconds": {spent},'
    f' "rss_after_kb": {memory["VmRSS"]}, "peak_rss_kb": {memory["VmHWM"]}}}'
)
