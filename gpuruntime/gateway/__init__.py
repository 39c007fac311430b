"""The access gateway and the accessors behind it: streams of data to callers. It writes nothing to the cluster."""
