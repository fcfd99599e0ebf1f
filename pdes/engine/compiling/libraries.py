"""What LLVM sees at once: a step is text until somebody from Python's side comes in, then all is optimised together.

Numba compiles every function to be called from anywhere. It optimises each with all that it calls, and so what lies
deep in the event loop once for every function around it, and makes machine code each time. And a call hands over all
words of arrays that are in no table (`tables`), needed or not.

Here a `Step`, which other kernels alone call, stays as Numba wrote it. An `Entry`, which Python calls, is optimised
with all steps below it. A `Program` is an entry that no kernel calls: within it LLVM drops what is handed over and
not needed.

This overrides methods of Numba's classes that are not public; `tests/pdes/engine/test_program_kernel.py` sees when one
of them is called otherwise.
"""

from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import Linkage
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import AnnotateTypes

from pdes.engine.compiling.loading import Loading

ENVIRONMENT = "_ZN08NumbaEnv"  # how names of variables begin that point to an object of Python's side of a function


class _Nowhere:
    """The generator of code of a function that is not there by itself: it has no variables to be set."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, env_name: str, env: Any) -> None:
        """Whoever links the function sets its own."""


class Step(JITCodeLibrary):
    """A function that only kernels call, with all that it calls, not optimised."""

    @property
    def codegen(self) -> Any:
        """See `_Nowhere`."""
        return _Nowhere(self._codegen)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is none."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> Any:
        """Its text."""
        self._ensure_finalized()
        return self.name, "step", self._final_module.as_bitcode()

    @classmethod
    def load(cls, codegen: Any, data: Any) -> "Step":
        """What was kept."""
        name, _, bitcode = data
        found = cls(codegen, name)
        found._final_module = llvm.parse_bitcode(bitcode)
        found._finalize_final_module()
        return found


class Entry(JITCodeLibrary):
    """A function that Python calls, with all that it calls."""

    _bitcode: bytes | None = None  # of what was loaded, until somebody links it

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        codegen: Any = self._codegen
        for variable in self._final_module.global_variables:
            if variable.name.startswith(ENVIRONMENT) and not variable.is_declaration:
                environment = lookup_environment(variable.name)
                if environment is not None:
                    codegen.set_env(variable.name, environment)

    def _defined(self) -> list[str]:
        module = self._final_module
        return [
            value.name
            for values in (module.functions, module.global_variables)
            for value in values
            if not value.is_declaration and value.linkage not in (Linkage.private, Linkage.internal)
        ]

    def _text(self) -> bytes:
        """For who links it."""
        return self._get_module_for_linking().as_bitcode()

    def serialize_using_object_code(self) -> Any:
        """Its machine code, and apart from it its text and the names that it defines."""
        self._ensure_finalized()
        return self.name, "entry", (self._get_compiled_object(), self._text(), self._defined())

    def _get_module_for_linking(self) -> Any:
        if self._bitcode is not None:
            self._shared_module, self._bitcode = llvm.parse_bitcode(self._bitcode), None
        return super()._get_module_for_linking()

    @classmethod
    def load(cls, codegen: Any, data: Any) -> "Entry":
        """What was kept."""
        name, _, (machine_code, bitcode, defined) = data
        found = cls(codegen, name)
        found.enable_object_caching()
        found._set_compiled_object(machine_code)
        found._bitcode = bitcode
        found._finalize_final_module()
        codegen._engine._defined_symbols.update(defined)
        return found


class Program(Entry):
    """An entry that no kernel calls."""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = "private"  # without a symbol, which LLVM would take for another kernel's function
        codegen: Any = self._codegen
        try:  # Numba's first round of passes is for reference counts, of which there are none
            passes, builder = codegen._module_pass_manager()
        except TypeError:  # passes as they were before LLVM 20
            super()._optimize_final_module()
        else:
            passes.run(self._final_module, builder)

    def _text(self) -> bytes:
        return b""

    def _get_module_for_linking(self) -> Any:
        raise TypeError(f"{self.name} is a program: Python calls it, and no kernel")


@cache
def compiler_into(library_class: type[JITCodeLibrary]) -> type[CompilerBase]:
    """A compiler into libraries of a class; Numba's own passes take the library that is there."""

    @register_pass(mutates_CFG=False, analysis_only=True)
    class IntoLibrary(AnalysisPass):
        _name = f"pdes_into_{library_class.__name__.lower()}"

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            state.library = library_class(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return False

    class Compiler(CompilerBase):
        def define_pipelines(self) -> list[Any]:
            passes: Any = DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes.add_pass_after(IntoLibrary, AnnotateTypes)
            passes.finalize()
            return [passes]

    return Compiler


@cache
def cache_of(library_class: "type[Step | Entry]") -> type[Loading]:
    """Where kernels in libraries of a class are kept."""

    class Kept(CompileResultCacheImpl):
        def rebuild(self, target_context: Any, payload: Any) -> Any:
            """What was kept, ready to be called."""
            data, *others = payload
            codegen = target_context.codegen()
            library = library_class.load(codegen, data)
            found = CompileResult._rebuild(_With(target_context, library), data, *others)
            return found._replace(target_context=target_context)

    class Cache(Loading):
        _impl_class = Kept

    return Cache


class _With:
    """A target whose next library is one that has been loaded."""

    def __init__(self, target: Any, library: JITCodeLibrary) -> None:
        self._target, self._library = target, library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def codegen(self) -> "_With":
        """Itself."""
        return self

    def unserialize_library(self, data: Any) -> JITCodeLibrary:
        """The library."""
        return self._library
