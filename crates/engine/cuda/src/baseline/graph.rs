//! CUDA graphs: nodes with stated dependences, or captured from a stream.

use std::ffi::c_void;

use cudarc::driver::sys;
use everwarp_engine::EngineError;

use super::Baseline;
use super::launch::Shape;
use crate::driver::{Stream, call};

/// A graph ready to be launched.
#[derive(Debug)]
pub(super) struct Graph {
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
}

impl Graph {
    /// Launches it.
    pub(super) fn launch(&self, stream: &Stream) -> Result<(), EngineError> {
        // SAFETY: the graph was instantiated, and its nodes' memory is live as its owner holds it.
        unsafe { call!(cuGraphLaunch(self.exec, stream.0)) }
    }

    /// By which kernels on the device name it.
    pub(super) fn handle(&self) -> u64 {
        self.exec as u64
    }

    /// Instantiates a graph and copies it to the device, so that its first launch costs as much as any other.
    fn ready(graph: sys::CUgraph, flags: u64, stream: &Stream) -> Result<Self, EngineError> {
        let mut exec = std::ptr::null_mut();
        // SAFETY: the graph is complete; the out-pointer is valid; the stream is live.
        unsafe {
            call!(cuGraphInstantiateWithFlags(&raw mut exec, graph, flags))?;
            call!(cuGraphUpload(exec, stream.0))?;
        }
        stream.synchronize()?;
        Ok(Self { graph, exec })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: both came from the driver and are destroyed once. A failure leaves a leak.
        unsafe {
            let _ = call!(cuGraphExecDestroy(self.exec));
            let _ = call!(cuGraphDestroy(self.graph));
        }
    }
}

/// A graph being put together.
#[derive(Debug)]
pub(super) struct Nodes<'b> {
    base: &'b Baseline,
    graph: sys::CUgraph,
}

impl Nodes<'_> {
    /// Adds a kernel that starts when the named ones have ended.
    ///
    /// # Safety
    /// - `params` are pointers to the kernel's parameters, which live as long as the graph.
    pub(super) unsafe fn add(
        &self,
        shape: Shape,
        params: &mut [*mut c_void],
        after: &[sys::CUgraphNode],
    ) -> Result<sys::CUgraphNode, EngineError> {
        let node_params = sys::CUDA_KERNEL_NODE_PARAMS {
            func: shape.kernel,
            gridDimX: shape.grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: params.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        let mut node = std::ptr::null_mut();
        // SAFETY: the graph is live, the dependences are nodes of it, and parameters are copied by the call.
        unsafe {
            call!(cuGraphAddKernelNode_v2(
                &raw mut node,
                self.graph,
                after.as_ptr(),
                after.len(),
                &raw const node_params
            ))
        }?;
        Ok(node)
    }

    /// Makes the graph ready.
    pub(super) fn finish(self) -> Result<Graph, EngineError> {
        Graph::ready(self.graph, 0, &self.base.stream)
    }

    /// Makes the graph ready for kernels of other graphs, and of itself, to launch it.
    pub(super) fn finish_for_device(self) -> Result<Graph, EngineError> {
        let flag = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
        Graph::ready(self.graph, flag.0.into(), &self.base.stream)
    }
}

impl Baseline {
    /// Begins an empty graph.
    pub(super) fn nodes(&self) -> Result<Nodes<'_>, EngineError> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the out-pointer is valid.
        unsafe { call!(cuGraphCreate(&raw mut graph, 0)) }?;
        Ok(Nodes { base: self, graph })
    }

    /// Records launches on the stream instead of running them: the only way to state that a dependence is a
    /// programmatic one.
    pub(super) fn capture(
        &self,
        launches: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<Graph, EngineError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is live and nothing is being captured on it.
        unsafe { call!(cuStreamBeginCapture_v2(self.stream.0, mode)) }?;
        let launched = launches();
        let mut graph = std::ptr::null_mut();
        // SAFETY: the out-pointer is valid. The capture is ended also when a launch failed.
        let ended = unsafe { call!(cuStreamEndCapture(self.stream.0, &raw mut graph)) };
        launched.and(ended)?;
        Graph::ready(graph, 0, &self.stream)
    }
}
