"""The activator: it brings queued invocations to free slots of connected workers, and their results to NATS.

::

    activator       Activator: everything together; frames of workers, questions of other activators, drain
    workers/        the connection of a worker, its token, its slots, the choice, what becomes of lost ones
    leases/         the signature of a lease, the key that all activators share, what is held here
    runs/           a function's pull; start, redelivery, end and commit of a run; the check of leases
    upkeep/         what the leader does: streams, finalizers, deletions, expiry
    figures         metrics
    settings        times

There are two or more, and each one dispatches. No state in memory matters:

=============================  ========================================================================================
an activator is killed         its workers connect to another one with their leases, which extends them; results that
                               were not committed are sent again there. Nothing runs twice
a worker is lost               its leases are extended no more, and run out after `ack_wait`. If its pod is known to
                               have ended, its runs go back to the queue at once
the connection of a worker     the worker connects again, anywhere, and brings its leases and results
NATS is killed or away         runs go on; results wait at their workers. After the reconnect leases are extended first;
                               a delivery that came before runs only if no live worker has it
NATS lost its disk             the leader makes the streams again; results of what runs are stored
the API server is away         connected workers stay. New ones are refused, with 503, unless their token was seen
                               within two minutes
a worker is cut off from all   after `ack_wait` its run is given to another worker, and the later result is dropped and
activators, and lives          counted
an activator is cut off from   the same for its workers: it cannot answer for them
NATS
=============================  ========================================================================================
"""
