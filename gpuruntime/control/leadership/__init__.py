"""Who may write: a lease that replicas compete for, and a fence that shuts before anybody else can hold it."""
