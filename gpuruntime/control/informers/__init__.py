"""Informers: reflectors list and watch, stores hold the objects, dispatchers call event handlers."""
