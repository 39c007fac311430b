"""What a process may do in its cluster, derived from what it watches and from what its author says that it writes.

`declarations` is what authors say, `resolving` turns it and the informers into rights, `rights` are single things that
somebody may do, `roles` are the objects that grant them.
"""
