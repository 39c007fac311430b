"""The official client's informer, which works in a thread."""

# /// script
# dependencies = [
#     "aiohappyeyeballs==2.7.1",
#     "aiohttp==3.14.5",
#     "aiohttp-retry==2.9.1",
#     "aiosignal==1.4.0",
#     "annotated-types==0.8.0",
#     "attrs==26.1.0",
#     "certifi==2026.10.18",
#     "charset-normalizer==3.5.2",
#     "durationpy==0.11",
#     "frozenlist==1.8.0",
#     "idna==3.20",
#     "kubernetes==37.0.2",
#     "multidict==7.2.1",
#     "oauthlib==4.0.1",
#     "propcache==0.5.4",
#     "pydantic==2.14.3",
#     "pydantic_core==2.50.4",
#     "python-dateutil==4.0.0",
#     "PyYAML==6.0.3",
#     "requests==2.34.2",
#     "requests-oauthlib==2.0.0",
#     "typing-inspection==0.4.5",
#     "typing_extensions==4.16.0",
#     "tzdata==2026.6",
#     "urllib3==2.8.0",
#     "websocket-client==1.9.2",
#     "yarl==1.25.1",
# ]
# [tool.bench]
# imports = ["kubernetes.client", "kubernetes.config", "kubernetes.informer"]
# note = "SharedInformer"
# ///

import asyncio
import threading

from kubernetes import client, config
from kubernetes.informer import SharedInformer
from kubernetes.informer.informer import ADDED

from hack.benchmarks.contender_program import Meter, Order, run_contender


async def sync(order: Order) -> None:
    config.load_kube_config()
    known = 0
    all_known = threading.Event()

    def count(_pod: object) -> None:
        nonlocal known
        known += 1
        if known == order.objects:
            all_known.set()

    meter = Meter()
    informer = SharedInformer(client.CoreV1Api().list_pod_for_all_namespaces)
    informer.add_event_handler(ADDED, count)
    informer.start()
    all_known.wait()
    meter.finish(len(informer.cache.list()))


async def hotloop(order: Order) -> None:
    config.load_kube_config()
    meter = Meter()
    informer = SharedInformer(client.CoreV1Api().list_pod_for_all_namespaces)
    informer.start()
    await asyncio.sleep(order.seconds)
    meter.finish(0)


if __name__ == "__main__":
    run_contender({"sync": sync, "hotloop": hotloop})
