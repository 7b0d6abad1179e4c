fn noop_nothing() {}
