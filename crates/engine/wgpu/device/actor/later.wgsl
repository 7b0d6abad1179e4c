// A turn of an actor runs in a later dispatch than the one that it was made in: what its sender wrote, and what the actor's
// last turn wrote, is visible there, whichever workgroups they were.
fn is_early(task: vec4<u32>, info: u32) -> bool { return (info & FUNCTION_LATER) != 0u && task.w == round.number; }
