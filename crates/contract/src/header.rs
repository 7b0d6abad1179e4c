//! The device headers: everything in this crate as CUDA C++, and what a wgpu engine needs as WGSL, written from the
//! declarations.

use core::fmt;

use crate::layout::{DeviceText, Layout};
use crate::{
    actor, control, device, errno, fault, files, group, heap, hostcall, pages, ring, task,
    telemetry, wgpu,
};

/// Writes the header that device sources include as `everwarp/contract.cuh`.
///
/// It is generated each time an image is built and never checked in, so that it cannot be stale.
pub fn write_header(out: &mut dyn DeviceText) -> fmt::Result {
    writeln!(out, "#pragma once")?;
    writeln!(
        out,
        "// Generated from the crate everwarp-contract; do not edit."
    )?;
    for (name, of) in [
        ("u8", "unsigned char"),
        ("u16", "unsigned short"),
        ("u32", "unsigned int"),
        ("u64", "unsigned long long"),
        ("i32", "int"),
        ("i64", "long long"),
    ] {
        writeln!(out, "using {name} = {of};")?;
    }
    task::write_consts(out)?;
    fault::write_consts(out)?;
    control::write_consts(out)?;
    telemetry::write_consts(out)?;
    ring::write_consts(out)?;
    device::write_consts(out)?;
    heap::write_consts(out)?;
    hostcall::write_consts(out)?;
    errno::write_consts(out)?;
    actor::write_consts(out)?;
    files::write_consts(out)?;
    pages::write_consts(out)?;
    task::DevTask::write_struct(out)?;
    group::DevGroup::write_struct(out)?;
    fault::DevFault::write_struct(out)?;
    control::DevWords::write_struct(out)?;
    telemetry::DevWorker::write_struct(out)?;
    ring::DevCompletion::write_struct(out)?;
    hostcall::DevHostCall::write_struct(out)?;
    hostcall::DevHostCallEntry::write_struct(out)?;
    hostcall::DevHostCallRing::write_struct(out)?;
    hostcall::write_calls(out)?;
    device::DevInbox::write_struct(out)?;
    device::DevTrace::write_struct(out)?;
    device::DevHistogram::write_struct(out)?;
    device::DevMeasure::write_struct(out)?;
    device::DevSample::write_struct(out)?;
    device::DevDeque::write_struct(out)?;
    device::DevGrid::write_struct(out)?;
    heap::DevHeapPage::write_struct(out)?;
    heap::DevHeapCounters::write_struct(out)?;
    heap::DevHeapOwner::write_struct(out)?;
    heap::DevHeapError::write_struct(out)?;
    heap::DevHeap::write_struct(out)?;
    device::DevEngine::write_struct(out)?;
    actor::DevActor::write_struct(out)?;
    actor::DevMessage::write_struct(out)?;
    actor::DevTells::write_struct(out)?;
    actor::DevActorControl::write_struct(out)?;
    files::DevFileRequest::write_struct(out)?;
    files::DevFileDone::write_struct(out)?;
    files::DevFileCopy::write_struct(out)?;
    files::DevFileStat::write_struct(out)?;
    files::DevFileList::write_struct(out)?;
    files::DevFileEntry::write_struct(out)?;
    files::DevNetAddress::write_struct(out)?;
    files::DevEvent::write_struct(out)?;
    files::DevFileControl::write_struct(out)?;
    pages::DevPageOrder::write_struct(out)?;
    pages::DevPageFile::write_struct(out)?;
    pages::DevPages::write_struct(out)?;
    files::DevFiles::write_struct(out)
}

/// Writes the declarations that precede the sources of a WGSL image.
///
/// It is generated each time an image is built and never checked in, so that it cannot be stale.
pub fn write_wgsl_header(out: &mut dyn DeviceText) -> fmt::Result {
    writeln!(
        out,
        "// Generated from the crate everwarp-contract; do not edit."
    )?;
    task::write_consts(out)?;
    fault::write_consts(out)?;
    telemetry::write_consts(out)?;
    heap::write_consts(out)?;
    wgpu::write_consts(out)?;
    task::DevTask::write_struct(out)?;
    ring::DevCompletion::write_struct(out)?;
    telemetry::DevWorker::write_struct(out)?;
    wgpu::DevRound::write_struct(out)?;
    wgpu::DevWgpuGroup::write_struct(out)?;
    wgpu::DevWgpuHeader::write_struct(out)?;
    wgpu::DevWgpuHeap::write_struct(out)?;
    wgpu::DevWgpuOwner::write_struct(out)?;
    heap::DevHeapError::write_struct(out)?;
    wgpu::DevWgpuQueue::write_struct(out)?;
    wgpu::DevWgpuWorkgroup::write_struct(out)
}

/// Writes the declarations that an image of actors has in addition.
///
/// It is generated each time an image is built and never checked in, so that it cannot be stale.
pub fn write_wgsl_actors(out: &mut dyn DeviceText) -> fmt::Result {
    actor::write_consts(out)?;
    wgpu::write_actor_consts(out)?;
    actor::DevActorControl::write_struct(out)?;
    wgpu::DevWgpuMessage::write_struct(out)?;
    wgpu::DevWgpuActor::write_struct(out)
}
