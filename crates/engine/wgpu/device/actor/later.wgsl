// A turn of an actor runs in a later dispatch than the one that it was made in: what its sender wrote, and what the actor's
// last turn wrote, is visible there, whichever workgroups they were. A turn that is near runs at once: both were this workgroup.
fn is_early(task: vec4<u32>, info: u32) -> bool { return (info & FUNCTION_LATER) != 0u && task.w == turn_later(); }
fn turn_later() -> u32 { return round.number & (TURN_NEAR - 1u); }
