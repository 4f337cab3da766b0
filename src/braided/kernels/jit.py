"""Compiling kernels with Numba: for a library that is built, with `BRAIDED_JIT=1`, and for users' learners.

What is compiled is the same in all cases: the entry point with all kernels inlined, behind a function of one block
of words (`kernels.native`). Divisions by zero give infinities and NaN, as in NumPy, so that nothing can raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numba
from numba.core import cgutils, compiler, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload
from numba.np import numpy_support
from numba.np.arrayobj import make_array, populate_array

from braided.errors import BraidedError
from braided.kernels import calls, native

_OPTIONS = {"error_model": "numpy", "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_LIBRARIES: list[Any] = []  # which own the machine code
_WORD = ir.IntType(64)
#: Kernels own no memory, so that no references are counted; and all arrays are in C order, so that any can be reshaped.
_RUNTIME = """
define void @NRT_incref(ptr %p) alwaysinline { ret void }
define void @NRT_decref(ptr %p) alwaysinline { ret void }
define i32 @numba_attempt_nocopy_reshape(
    i64 %n, ptr %shape, ptr %strides, i64 %new_n, ptr %new_shape, ptr %new_strides, i64 %itemsize, i32 %order
) alwaysinline {
begin:
    br label %next
next:
    %left = phi i64 [%new_n, %begin], [%axis, %write]
    %stride = phi i64 [%itemsize, %begin], [%larger, %write]
    %done = icmp eq i64 %left, 0
    br i1 %done, label %end, label %write
write:
    %axis = sub i64 %left, 1
    %to = getelementptr i64, ptr %new_strides, i64 %axis
    store i64 %stride, ptr %to
    %from = getelementptr i64, ptr %new_shape, i64 %axis
    %size = load i64, ptr %from
    %larger = mul i64 %stride, %size
    br label %next
end:
    ret i32 1
}
declare float @nextafterf(float, float)
define float @numba_nextafterf(float %from, float %to) alwaysinline {
    %next = call float @nextafterf(float %from, float %to)
    ret float %next
}
"""
#: What a library may need from elsewhere: mathematics.
_MATHEMATICS = {
    "ceil", "cos", "cosf", "exp", "exp2", "expf", "fabs", "floor", "hypot", "log", "log10", "logf", "nextafterf", "pow",
    "powf", "sin", "sinf", "sqrt", "sqrtf", "tanh",
}  # fmt: skip

if native.JIT:  # the same instructions, and so the same bits, as the library of the level
    numba.config.CPU_NAME = {"arm64": "generic"}.get(native.level(), native.level())
    numba.config.CPU_FEATURES = ""


def _numba_kind(kind: Any) -> Any:
    if isinstance(kind, native.ArrayKind):
        return types.Array(numpy_support.from_dtype(kind.dtype), kind.ndim, "C")
    return {int: types.int64, float: types.float64, bool: types.boolean, type(None): types.none}.get(kind, types.uint64)


def _array(context: Any, builder: Any, kind: Any, address: Any, shape: list[Any]) -> Any:
    """The array of a Numba type that lies at an address."""
    array = make_array(kind)(context, builder)
    itemsize = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [_WORD(itemsize)]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size, flags=["nsw"]))
    data = builder.inttoptr(address, array.data.type)
    populate_array(array, data, shape, strides, itemsize, None)
    return array._getvalue()


@intrinsic(prefer_literal=True)
def _array_at(typing_context: Any, address: Any, dtype: Any, shape: Any) -> Any:
    kind = types.Array(dtype.dtype, len(shape), "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _array(context, builder, kind, arguments[0], cgutils.unpack_tuple(builder, arguments[2]))

    return kind(address, dtype, shape), generate


@intrinsic
def _call_at(typing_context: Any, address: Any, arguments: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        words: list[Any] = []
        for kind, value in zip(signature.args[1], cgutils.unpack_tuple(builder, given[1]), strict=True):
            if isinstance(kind, types.Array):
                array = make_array(kind)(context, builder, value)
                words += [builder.ptrtoint(array.data, _WORD), *cgutils.unpack_tuple(builder, array.shape)]
            else:
                words.append(builder.bitcast(value, _WORD) if isinstance(kind, types.Float) else value)
        block = cgutils.alloca_once(builder, _WORD, size=len(words))
        for place, word in enumerate(words):
            builder.store(word, builder.gep(block, [_WORD(place)]))
        function = ir.FunctionType(_WORD, [block.type])
        return builder.call(builder.inttoptr(given[0], function.as_pointer()), [block])

    return types.int64(address, arguments), generate


@overload(calls.array_at)
def _overload_array_at(address, kind, *shape):
    return lambda address, kind, *shape: _array_at(address, kind, shape)


@overload(calls.call_at)
def _overload_call_at(address, *arguments):
    return lambda address, *arguments: _call_at(address, arguments)


def _make_known() -> None:
    """Let Numba find every kernel and entry point by the name that it has in Python."""
    for function, options in native.KERNELS.items():
        _let_find(function, function, options)
    for entry in native.ENTRIES:
        _let_find(entry, entry.function, {})


def _let_find(name: Any, function: Any, options: dict[str, Any]) -> None:
    if not hasattr(name, "_numba_type_"):
        name.dispatcher = numba.njit(**_OPTIONS, **options)(function)
        name._numba_type_ = name.dispatcher._numba_type_


class _Inlined(JITCodeLibrary):
    """The optimised instructions of what is inlined into an object: of its own it has no machine code."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        """Optimise fully what may add up in another order, whose bits depend on it, and only prepare all else."""
        if "reassoc" in str(self._final_module):
            super()._optimize_final_module()
        else:
            passes, builder = self._codegen._module_pass_manager(opt=0, loop_vectorize=False, cost="cheap")
            passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalized = True


@contextmanager
def _running_nothing() -> Iterator[None]:
    """Keep Numba from making machine code for this process."""
    codegen = cpu_target.target_context.codegen()
    codegen._library_class, codegen.set_env = _Inlined, lambda *_: None
    try:
        yield
    finally:
        del codegen._library_class, codegen.set_env


@global_compiler_lock
def _compile(entry: native.Entry) -> Any:
    """Numba's library of an entry point; it is not finished."""
    _make_known()
    takes, returned = entry.types
    flags = compiler.Flags()
    cpu_target.options.parse_as_flags(flags, {"nopython": True, **_OPTIONS, **native.KERNELS.get(entry.function, {})})
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    kinds = [_numba_kind(kind) for kind in takes]
    context = cpu_target.target_context
    made = compiler.compile_extra(
        cpu_target.typing_context, context, entry.function, kinds, _numba_kind(returned), flags, {}
    )
    module, inner = context.create_module("exported"), made.fndesc
    result = ir.DoubleType() if returned is float else _WORD
    exported = ir.Function(module, ir.FunctionType(result, [_WORD.as_pointer()]), entry.symbol)
    builder = ir.IRBuilder(exported.append_basic_block())
    places, arguments = count(), []

    def next_word() -> Any:
        return builder.load(builder.gep(exported.args[0], [_WORD(next(places))]))

    for kind, numba_kind in zip(takes, kinds, strict=True):
        word = next_word()
        if isinstance(kind, native.ArrayKind):
            word = _array(context, builder, numba_kind, word, [next_word() for _ in range(kind.ndim)])
        elif kind is float:
            word = builder.bitcast(word, ir.DoubleType())
        elif kind is bool:
            word = builder.icmp_signed("!=", word, _WORD(0))
        arguments.append(word)
    callee = ir.Function(
        module, context.call_conv.get_function_type(inner.restype, inner.argtypes), inner.llvm_func_name
    )
    _, out = context.call_conv.call_function(builder, callee, inner.restype, inner.argtypes, arguments)
    if returned is type(None):
        out = _WORD(0)
    elif returned is bool:
        out = builder.zext(out, _WORD)
    builder.ret(out)
    made.library.add_ir_module(module)
    if entry.__module__.startswith("braided."):
        made.library.add_llvm_module(llvm.parse_assembly(_RUNTIME))
    return made.library


def _finish(entry: native.Entry) -> Any:
    """Numba's library of an entry point, optimised, in which only that is visible."""
    made = _compile(entry)

    def hide() -> None:  # first, so that what has been inlined is neither optimised nor emitted on its own
        for function in made._final_module.functions:
            if not function.is_declaration and function.name != entry.symbol:
                function.linkage = "internal"
        JITCodeLibrary._optimize_final_module(made)

    made._optimize_final_module = hide
    made.finalize()
    return made


@global_compiler_lock
def compile_to_address(entry: native.Entry) -> int:
    """Compile an entry point in memory."""
    made = _finish(entry)
    _LIBRARIES.append(made)
    return int(made.get_pointer_to_function(entry.symbol))


@global_compiler_lock
def compile_to_object(entry: native.Entry) -> bytes:
    """Compile an entry point to position-independent machine code, for a linker."""
    with _running_nothing():
        module = _finish(entry)._final_module
    needed = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    if not needed <= _MATHEMATICS:
        missing = ", ".join(sorted(needed - _MATHEMATICS))
        raise BraidedError(f"{entry.symbol} calls {missing}: a kernel may neither allocate nor raise, change it")
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=numba.config.CPU_NAME, features=numba.config.CPU_FEATURES, opt=3, reloc="pic", codemodel="default"
    )
    return bytes(machine.emit_object(module))
