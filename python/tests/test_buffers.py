"""Unified buffers: sides, leases, counts, and exchange without copies."""

from __future__ import annotations

import gc
import inspect
import os
from typing import Any

import everwarp as ew
import numpy as np
import pytest


def here() -> str:
    """The line of the caller, as messages name it."""
    frame: Any = inspect.currentframe()
    return f"{frame.f_back.f_code.co_filename}, line {frame.f_back.f_lineno}"


def test_a_buffer_is_an_array_without_a_copy() -> None:
    buffer = ew.UnifiedBuffer((3, 4), ew.f32)
    assert (buffer.shape, buffer.dtype, buffer.strategy, len(buffer)) == ((3, 4), "f32", "pinned", 3)
    array = np.asarray(buffer.host)
    assert array.shape == (3, 4) and array.dtype == np.float32 and not array.any()
    array[1] = 7
    other = np.asarray(buffer.host)
    assert np.shares_memory(array, other) and (other[1] == 7).all()
    assert memoryview(buffer.host).format == "f"
    del array, other
    assert buffer.holders == []


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"])  # fmt: skip
def test_every_type_of_numbers_goes_through_each_interface(dtype: str) -> None:
    values = np.arange(10).astype(dtype)
    buffer = ew.UnifiedBuffer(10, np.dtype(dtype))
    buffer.host[...] = values
    for make, view in ((np.asarray, buffer.host), (np.from_dlpack, buffer.host), (np.from_dlpack, buffer.device)):
        array: Any = make(view)
        assert array.dtype == values.dtype and (array == values).all()
        del array
    back = ew.UnifiedBuffer.from_array(values)
    assert back.dtype == buffer.dtype and (np.asarray(back.host) == values).all()
    assert ew.UnifiedBuffer.from_dlpack(values).dtype == buffer.dtype


def test_types_are_named_in_each_way() -> None:
    for dtype in (ew.f32, np.float32, np.dtype("float32"), "f32", "float32"):
        assert ew.UnifiedBuffer(1, dtype).dtype == "f32"
    assert (ew.UnifiedBuffer(1, int).dtype, ew.UnifiedBuffer(1, float).dtype) == ("i64", "f64")
    for wrong in (np.float16, "f16", np.complex64, object, 3, ew.actor_id, np.dtype(">i4")):
        with pytest.raises(TypeError, match="a buffer holds boolean, i8"):
            ew.UnifiedBuffer(1, wrong)


def test_a_buffer_on_both_sides_names_the_line_that_holds_it() -> None:
    buffer = ew.UnifiedBuffer(8, ew.i64)
    held = np.asarray(buffer.host); line = here()  # noqa: E702
    with pytest.raises(ew.BufferInUse) as refused:
        np.asarray(buffer.device)
    assert f"an array of the host's side, made at {line}" in str(refused.value)
    assert "written on the host" in str(refused.value) and "until that is dropped" in str(refused.value)
    assert buffer.holders == [f"an array of the host's side, made at {line}"]
    part = held[2:3]
    del held
    with pytest.raises(BufferError):
        np.from_dlpack(buffer.device)
    del part
    on_device = np.from_dlpack(buffer.device)
    with pytest.raises(ew.BufferInUse, match="an export by DLPack of the device's side, made at .*test_buffers.py, line"):
        buffer.host[0] = 1
    del on_device
    buffer.host[0] = 1
    assert buffer.device[0] == 1


def test_parts_are_held_by_themselves_and_readers_exclude_no_reader() -> None:
    buffer = ew.UnifiedBuffer((10, 2), ew.f64)
    held = np.asarray(buffer.host[2:4])
    np.asarray(buffer.device[4:])
    np.asarray(buffer[0:2].device)
    with pytest.raises(ew.BufferInUse):
        np.asarray(buffer.device[3:5])
    del held
    one, two = np.asarray(buffer.host.readonly_view()), np.asarray(buffer.device.readonly_view())
    assert not one.flags.writeable and not two.flags.writeable
    with pytest.raises(ew.BufferInUse):
        np.asarray(buffer.device)
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 1


def test_only_what_was_changed_counts_as_moved() -> None:
    buffer = ew.UnifiedBuffer(100_000, ew.f32, strategy="private")
    assert buffer.transfers == ew.Transfers(0, 0, 0, 0)
    buffer.host[500:1500] = np.ones(1000)
    buffer.host[7] = 2.5
    assert buffer.newer == (4004, 0)
    np.asarray(buffer.device)
    moved = buffer.transfers
    assert 4004 <= moved.bytes_to_device <= 8008 and moved.bytes_to_host == 0
    # It counts as changed on the device from here on.
    assert buffer.newer == (0, 400_000)
    np.asarray(buffer.host[:10].readonly_view())
    assert buffer.transfers.bytes_to_host == 40
    mapped = ew.UnifiedBuffer(1000, ew.f32, strategy="mapped")
    mapped.host[:] = 1.0
    assert (np.asarray(mapped.device) == 1).all() and mapped.transfers == ew.Transfers(0, 0, 0, 0)


def test_indices_read_and_assign() -> None:
    buffer = ew.UnifiedBuffer((4, 3), ew.i32)
    buffer.host[1] = [1, 2, 3]
    buffer.host[-1, 0] = 9
    buffer.host[2:3] = np.array([[4, 5, 6]])
    assert np.asarray(buffer.host).tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 6], [9, 0, 0]]
    assert buffer.host[2].tolist() == [4, 5, 6] and buffer.host[2, 1] == 5
    row = buffer[1]
    assert row.shape == (3,) and row.host[2] == 3
    assert buffer.reshape(12).host[3:6][1] == 2
    with pytest.raises(IndexError, match="none has the number 4"):
        buffer.host[4] = 0
    with pytest.raises(IndexError):
        buffer[-5]
    with pytest.raises(ValueError, match="its step is 1"):
        buffer[::2]
    with pytest.raises(ValueError, match=r"\(4, 3\), and the data has \(5,\)"):
        buffer.reshape(5)
    with pytest.raises(ValueError, match="no negative axes"):
        ew.UnifiedBuffer((3, -1))


def test_memory_of_an_array_is_taken_without_a_copy() -> None:
    array = np.zeros((5, 2), dtype=np.uint16)
    buffer = ew.UnifiedBuffer.from_array(array)
    buffer.host[3] = [8, 9]
    assert array[3].tolist() == [8, 9] and np.shares_memory(array, np.asarray(buffer.device))
    del array
    gc.collect()
    assert buffer.host[3, 1] == 9
    taken = ew.UnifiedBuffer.from_dlpack(np.arange(4.0))
    assert (taken.shape, taken.dtype, taken.host[3]) == ((4,), "f64", 3.0)
    fixed = ew.UnifiedBuffer.from_array(b"abcd")
    assert fixed.readonly and fixed.host.readonly and bytes(fixed.host) == b"abcd"


def test_arrays_that_do_not_fit_are_refused() -> None:
    base = np.zeros((6, 4), dtype=np.float32)
    for wrong in (base.T, base[:, ::2], base[::-1]):
        with pytest.raises(BufferError, match="not next to each other in row order: pass numpy.ascontiguousarray"):
            ew.UnifiedBuffer.from_array(wrong)
        with pytest.raises(BufferError, match="contiguous"):
            ew.UnifiedBuffer.from_dlpack(wrong)
    for dtype in (np.float16, np.complex128, ">i4", "datetime64[s]", object):
        with pytest.raises((BufferError, ValueError)):
            ew.UnifiedBuffer.from_array(np.zeros(2, dtype=dtype))
    with pytest.raises(BufferError, match="code 5 with 128 bits"):
        ew.UnifiedBuffer.from_dlpack(np.zeros(2, dtype=np.complex128))
    with pytest.raises(TypeError, match="has no `__dlpack__`"):
        ew.UnifiedBuffer.from_dlpack([1, 2])
    with pytest.raises(BufferError, match="not aligned to 8 bytes"):
        ew.UnifiedBuffer.from_array(np.frombuffer(bytearray(17), dtype=np.uint8)[1:].view(np.int64))

    class OnGpu:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("it is asked for its device before")

    with pytest.raises(BufferError, match=r"DLPack device \(2, 0\).*copy it to the host first"):
        ew.UnifiedBuffer.from_dlpack(OnGpu())


def test_dlpack_has_its_versions_flags_and_devices() -> None:
    buffer = ew.UnifiedBuffer(4, ew.f32)
    view = buffer.host
    assert view.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(view.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(view.__dlpack__())
    gc.collect()
    assert buffer.holders == [], "capsules that no library took give the memory back"
    copy = np.from_dlpack(view, copy=True)
    copy[0] = 5
    assert buffer.host[0] == 0
    with pytest.raises(BufferError, match="which has no streams"):
        view.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="not on the DLPack device"):
        view.__dlpack__(dl_device=(2, 0), max_version=(1, 0))
    with pytest.raises(BufferError, match="needs DLPack 1.0"):
        view.readonly_view().__dlpack__()
    assert not np.from_dlpack(view.readonly_view()).flags.writeable
    capsule = view.__dlpack__(max_version=(1, 1))

    class Once:
        def __dlpack__(self, **_: Any) -> Any:
            return capsule

    taken = ew.UnifiedBuffer.from_dlpack(Once())
    with pytest.raises(TypeError, match="used before"):
        ew.UnifiedBuffer.from_dlpack(Once())
    del taken
    assert buffer.holders == []


def test_arrow_has_the_buffer_without_a_copy() -> None:
    buffer = ew.UnifiedBuffer.from_array(np.arange(6, dtype=np.int32))

    class Device:
        def __arrow_c_device_array__(self, requested_schema: Any = None, **kwargs: Any) -> Any:
            return buffer.host.__arrow_c_device_array__(requested_schema, **kwargs)

    class Host:
        def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
            return buffer.device.__arrow_c_array__(requested_schema)

    for array in (Device(), Host()):
        taken = ew.UnifiedBuffer.from_arrow(array)
        assert taken.readonly and np.asarray(taken.host).tolist() == list(range(6))
        assert np.shares_memory(np.asarray(taken.host), np.asarray(buffer.host.readonly_view()))
        with pytest.raises(ew.BufferInUse, match="an export to Arrow"):
            buffer.host[0] = 1
        del taken
    assert buffer.holders == []
    with pytest.raises(BufferError, match=r"one axis.*reshape it to \(6,\)"):
        buffer.reshape((2, 3)).host.__arrow_c_array__()
    with pytest.raises(BufferError, match="packs truth values"):
        ew.UnifiedBuffer(1, "bool").host.__arrow_c_array__()
    with pytest.raises(NotImplementedError, match="'future'"):
        buffer.host.__arrow_c_device_array__(future=1)
    with pytest.raises(TypeError, match="no interface of Arrow"):
        ew.UnifiedBuffer.from_arrow(np.zeros(1))


def test_pyarrow_reads_a_buffer_and_the_other_way_round() -> None:
    pa: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    buffer = ew.UnifiedBuffer.from_array(np.arange(5, dtype=np.float64))
    array = pa.array(buffer.host)
    assert array.type == pa.float64() and array.to_pylist() == [0, 1, 2, 3, 4]
    taken = ew.UnifiedBuffer.from_arrow(array[2:])
    assert np.asarray(taken.host).tolist() == [2, 3, 4]
    assert np.shares_memory(np.asarray(taken.host), np.asarray(buffer.host.readonly_view()))
    with pytest.raises(BufferError, match="elements of the array may be missing"):
        ew.UnifiedBuffer.from_arrow(pa.array([1, None]))
    with pytest.raises(BufferError, match="Arrow type"):
        ew.UnifiedBuffer.from_arrow(pa.array(["text"]))


def test_memory_of_a_gpu_is_not_claimed() -> None:
    view = ew.UnifiedBuffer(4, ew.f32).device
    assert not hasattr(view, "__cuda_array_interface__")


def test_a_strategy_and_an_engine_are_checked(engine: ew.Engine) -> None:
    with pytest.raises(ValueError, match='"private", "pinned" or "mapped", not "fast"'):
        ew.UnifiedBuffer(1, strategy="fast")  # type: ignore[arg-type]
    assert engine.buffer((2, 2), "i32").shape == (2, 2)
    with ew.engine("cpu") as closed:
        buffer = closed.buffer(4, ew.f32)
    for use in (lambda: buffer.host, lambda: buffer.device, lambda: closed.buffer(4)):
        with pytest.raises(ew.EngineClosed, match="closed"):
            use()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_buffer_of_an_engine_is_refused_after_a_fork(engine: ew.Engine) -> None:
    buffer = engine.buffer(4, ew.f32)
    child = os.fork()
    if child == 0:
        try:
            buffer.host
        except ew.ForkedError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_native_programs_pause_while_the_engine_is_parked(engine: ew.Engine) -> None:
    assert engine.run_program("fib", n=15).result == 610
    with engine.parked() as parked:
        assert parked is engine
    assert engine.run_program("fib", n=15).result == 610
    with ew.engine("cpu") as closed, closed.parked():
        closed.close()
