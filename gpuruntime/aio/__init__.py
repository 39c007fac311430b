"""What every asyncio program here needs: a clock that tests can move, owned tasks, backoff."""
