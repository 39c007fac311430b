"""Invocations: accepted by one durable write, ended by one create-only write.

::

    accept     a request becomes a message of the function's stream
    results    the end of an invocation: the first one that is written counts
    status     where an invocation is: its result, else its run, else its place in the queue
    cancel     ends an invocation that has not ended
    archive    what ended, from the result-store

Who dies where, and what happens then:

=================  ===========================  ==============================  ====================================
transition         who: the durable act         it dies before                  it dies after
=================  ===========================  ==============================  ====================================
to queued          API: publish                 no answer; the caller sends     the caller sends it again: 200,
                                                it again                        duplicate, with its present state
to an end          activator: create-only       the worker sends its result     delivered again, the result is found,
                   result, then ack, reply      through another activator       acknowledged and not run
to cancelled       API: create-only result,     the caller sends it again       sent again, it purges and asks again;
                   purge, core `cancel`                                         otherwise as above
no answer to a     (the outcome is unknown)     read from the leader, then written again with the same content
write
=================  ===========================  ==============================  ====================================

Idempotency: an ID is unique among the invocations of a function. While the request waits or runs, the stream has a
message of its subject and takes no second one. From then on there is a result, which has the hash of the request. In
between, and for two minutes in any case, the stream knows the message ID. An ID can be used again when its result has
expired.
"""
