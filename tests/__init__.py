"""The tests; a package so that ``tests.goldens`` and ``tests.reference`` can be imported from any folder below."""
