"""What a process may do in its cluster, derived from what it watches and from what it declares.

`declarations` has the `allow` functions, `resolving` turns declarations and informers into permissions, `permission` is
a single permission and the fewest RBAC rules that grant a set of them, `roles` makes the objects that grant them.
"""
