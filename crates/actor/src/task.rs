//! What turns do not use of a task, for tasks that are no engine's: of a simulation, and of closures that run for a GPU.

/// The methods of `TaskCx` that turns do not call, and a heap that has nothing.
macro_rules! turns_use_no_more {
    () => {
        fn fork(&mut self, _: u32, _: u8, _: u64) {
            unreachable!("turns do not fork");
        }
        fn fork_collect(&mut self, _: u32, _: u8) {
            unreachable!("turns do not fork");
        }
        fn spawn_child(&mut self, _: u32, _: u8, _: u64) {
            unreachable!("turns do not fork");
        }
        fn hold(&mut self) -> everwarp_contract::GroupId {
            unreachable!("turns hold no group");
        }
        fn report_slot(&mut self, _: u32, _: u32) {
            unreachable!("turns report nothing");
        }
        fn report_add(&mut self, _: u64) {
            unreachable!("turns report nothing");
        }
        fn alloc_for(&mut self, _: everwarp_contract::HeapOwner, _: u64) -> *mut u8 {
            std::ptr::null_mut()
        }
        fn free(&mut self, _: *mut u8) {}
        fn realloc(&mut self, _: *mut u8, _: u64) -> *mut u8 {
            std::ptr::null_mut()
        }
        fn release_owner(&mut self, _: everwarp_contract::HeapOwner, _: u32, _: u32) -> u64 {
            0
        }
        fn check_heap(&mut self, _: u32, _: u32) -> u64 {
            0
        }
    };
}

pub(crate) use turns_use_no_more;
