fn nothing_done() {}
