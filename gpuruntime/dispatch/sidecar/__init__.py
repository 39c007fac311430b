"""The sidecar of a worker: it brings invocations from an activator to the framework, and their results back.

::

    activator <── WebSocket ── activator_link ── worker ── held_runs
                                                    └── execution ── framework_client ── unix socket ──> framework
    kubelet ── probe_server ── framework_health ────────────────────────┘

It is small on purpose, because every worker has one: no client of Kubernetes or NATS, no reconciler, no metrics.

| who dies | then |
|---|---|
| the activator, or the connection | runs go on; leases and results go to the next activator |
| the framework, in a run | the run failed; no slots are offered until it is healthy again |
| the framework, before a run reaches it | the run goes back to the queue |
| the sidecar | its leases run out after 20 s, and the invocations run elsewhere; the framework's requests are closed |
| the pod, by deletion | /drain takes no more work and waits; then SIGTERM goes to the framework, and to the sidecar |
"""
