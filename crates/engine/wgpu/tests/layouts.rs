//! The layouts of the contract, as a compiler of WGSL understands them.

use everwarp_contract::header::{write_wgsl_actors, write_wgsl_header};
use everwarp_contract::{Layout, Wgsl, actor, heap, ring, task, telemetry, wgpu};

fn check<T: Layout>(module: &naga::Module) {
    let (_, found) = module
        .types
        .iter()
        .find(|(_, t)| t.name.as_deref() == Some(T::NAME))
        .unwrap_or_else(|| panic!("{} is declared", T::NAME));
    let naga::TypeInner::Struct { members, span } = &found.inner else {
        panic!("{} is a struct", T::NAME);
    };
    assert_eq!(*span as usize, size_of::<T>(), "{}: size", T::NAME);
    assert_eq!(members.len(), T::FIELDS.len());
    for (member, field) in members.iter().zip(T::FIELDS) {
        assert_eq!(member.name.as_deref(), Some(field.name));
        assert_eq!(
            member.offset as usize,
            field.offset,
            "{}.{}",
            T::NAME,
            field.name
        );
    }
}

#[test]
fn wgsl_lays_structs_out_as_rust_does() {
    let mut out = Wgsl::default();
    write_wgsl_header(&mut out).expect("all of it has a WGSL form");
    write_wgsl_actors(&mut out).expect("all of it has a WGSL form");
    actor::DevActors::write_struct(&mut out).expect("it has a WGSL form");
    let module = naga::front::wgsl::parse_str(&out.0).expect("it is WGSL");
    check::<task::DevTask>(&module);
    check::<ring::DevCompletion>(&module);
    check::<telemetry::DevWorker>(&module);
    check::<wgpu::DevRound>(&module);
    check::<wgpu::DevWgpuGroup>(&module);
    check::<wgpu::DevWgpuHeader>(&module);
    check::<wgpu::DevWgpuHeap>(&module);
    check::<wgpu::DevWgpuOwner>(&module);
    check::<heap::DevHeapError>(&module);
    check::<wgpu::DevWgpuQueue>(&module);
    check::<wgpu::DevWgpuWorkgroup>(&module);
    check::<wgpu::DevWgpuActor>(&module);
    check::<wgpu::DevWgpuMessage>(&module);
    check::<actor::DevActorControl>(&module);
    check::<actor::DevActors>(&module);
}
