# what single files are compiled with: instruction sets, embedded files, sanitizers
$(OBJ)/calib/defaults.o: $(wildcard calib/text/*)
$(OBJ)/models/config.o: models/defaults.json
$(OBJ)/template/own.o: $(wildcard template/own/*)
$(OBJ)/serve/page.o: $(wildcard serve/page/*)
$(addprefix $(OBJ)/,$(addsuffix /%.o,core text tok template chat gram convert)): WARN += -Wsign-conversion
$(OBJ)/kernels/avx2/%.o: ISA = -mavx2 -mfma -mf16c -ffp-contract=fast
# no fused operations here: encoders write the same bytes with every instruction set
$(OBJ)/quantize/enc/avx2/%.o: ISA = -mavx2 -Wno-psabi
# vectors of 32 bytes never cross a function that is not inlined
$(OBJ)/quantize/enc/lanes.o: ISA = -Wno-psabi
$(OBJ)/kernels/avxvnni/%.o: ISA = -mavxvnni -mavx2 -mfma -mf16c -ffp-contract=fast
$(patsubst %,$(OBJ)/kernels/avx512/%.o,iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s): MORE = -mavx512vbmi
$(OBJ)/kernels/avx512/%.o $(OBJ)/kernels/amx/%.o: \
  ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -ffp-contract=fast $(MORE)
$(OBJ)/kernels/amx/%.o: MORE = -mamx-tile -mamx-int8
# gcc's first scheduling makes more values live than there are registers: a tenth to a third more instructions
ifeq ($(ARCH),aarch64)
AS_WRITTEN := $(call has,-fno-schedule-insns)
endif
$(OBJ)/kernels/neon/%.o: ISA = $(AS_WRITTEN)
$(OBJ)/kernels/dotprod/%.o: ISA = -march=armv8.2-a+dotprod $(AS_WRITTEN)
$(OBJ)/kernels/i8mm/%.o: ISA = -march=armv8.2-a+dotprod+i8mm
# the address sanitizer looks at the operands of a matrix product once (kernels/ops.h), not at each of its loads: those
# were two thirds of the time of every test with a model. tests/kern/check puts pages that fault around them
$(OBJ)/kernels/avx2/gemm.o $(OBJ)/kernels/avx512/gemm.o: \
  SANF := $(if $(findstring address,$(SAN)),-DKERN_CHECK_ROWS,$(SANF))
# nor is it told of kernels that this machine cannot run: they take minutes to compile with it
CPU_FLAGS := $(if $(SAN),$(shell sed -n 's/^flags[^:]*://p' /proc/cpuinfo 2>/dev/null | head -1))
ifneq ($(CPU_FLAGS),)
$(if $(filter avx512f,$(CPU_FLAGS)),,$(eval $(OBJ)/kernels/avx512/%.o $(OBJ)/kernels/amx/%.o: SANF =))
$(if $(filter avx_vnni,$(CPU_FLAGS)),,$(eval $(OBJ)/kernels/avxvnni/%.o: SANF =))
endif
