// No function of this image is one whose tasks wait for the next dispatch.
fn is_early(task: vec4<u32>, info: u32) -> bool { return false; }
fn turn_later() -> u32 { return 0u; }
