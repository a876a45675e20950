# mk/isa.mk - flags for single files: instruction sets, embedded files, sanitizers, packed rows, emulation.
$(OBJ)/calib/defaults.o: $(wildcard calib/text/*.* calib/text/domain/*)
$(OBJ)/models/config.o: models/defaults.json
$(OBJ)/template/own.o: $(wildcard template/own/*)
$(OBJ)/template/add_tools.o: template/add_tools.jinja
$(OBJ)/template/repair_reader.o: template/repair_reader.jinja
$(OBJ)/jobs/template_prove.o: template/prove.py
$(OBJ)/serve/page.o: $(wildcard serve/page/*)
$(addprefix $(OBJ)/,$(addsuffix /%.o,base containers text tok template chat grammar convert)): WARN += -Wsign-conversion
$(OBJ)/kernels/avx2/%.o: ISA = -mavx2 -mfma -mf16c -ffp-contract=fast
# no fused operations: encoders write the same bytes with every instruction set
$(OBJ)/quantize/enc/avx2/%.o: ISA = -mavx2 -Wno-psabi
# 32-byte vectors are never passed to a function that is not inlined
$(OBJ)/quantize/enc/lanes.o: ISA = -Wno-psabi
$(OBJ)/kernels/avxvnni/%.o: ISA = -mavxvnni -mavx2 -mfma -mf16c -ffp-contract=fast
$(OBJ)/kernels/avx512/%.o $(OBJ)/kernels/amx/%.o: \
  ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -ffp-contract=fast $(MORE)
$(OBJ)/kernels/amx/%.o: MORE = -mamx-tile -mamx-int8
# gcc's first scheduling pass keeps more values live than there are registers: 10 to 33 % more instructions
ifeq ($(ARCH),aarch64)
AS_WRITTEN := $(call has,-fno-schedule-insns)
endif
$(OBJ)/kernels/neon/%.o: ISA = $(AS_WRITTEN)
$(OBJ)/kernels/dotprod/%.o: ISA = -march=armv8.2-a+dotprod $(AS_WRITTEN)
$(OBJ)/kernels/i8mm/%.o: ISA = -march=armv8.2-a+dotprod+i8mm
# with the address sanitizer, a matrix product checks its operands once (kernels/ops.h) instead of at every load, which
# took two thirds of the time of every test with a model. tests/kern/check surrounds operands with guard pages
$(OBJ)/kernels/avx2/gemm.o $(OBJ)/kernels/avx512/gemm.o: \
  SANF := $(if $(findstring address,$(SAN)),-DKERN_CHECK_ROWS,$(SANF))
# kernels that this machine cannot run are compiled without optimization and without the sanitizer, if so requested
CPU_FLAGS := $(if $(ONLY_COMPILED),$(shell sed -n 's/^flags[^:]*://p' /proc/cpuinfo 2>/dev/null | head -1))
ifneq ($(CPU_FLAGS),)
ISA_ELSEWHERE := $(if $(filter avx512f,$(CPU_FLAGS)),,avx512 amx) $(if $(filter avx_vnni,$(CPU_FLAGS)),,avxvnni)
endif

# packed rows: kernels/packed.c is compiled once per KERN_PACKED row of ops.def, as kernels/<isa>/packed_<type>.o
PACKED_ROWS := $(shell awk -F'[(), ]+' '$$1 == "KERN_PACKED" { print $$2 ":" $$3 ":" $$4 ":" $$5 ":" tolower($$3) }' \
  kernels/ops.def)
col = $(word $(1),$(subst :, ,$(2)))
packed_flags = -DPACKED_ISA=$(call col,1,$(1)) -DPACKED_TYPE=$(call col,2,$(1)) -DPACKED_STEPS=$(call col,3,$(1)) \
  -DPACKED_PRODUCTS=$(call col,4,$(1)) -DPACKED_BY_$(call col,4,$(1)) -DPACKED_FILE=$(call col,5,$(1)) \
  -DPACKED_FEW=$(if $(filter amx:%,$(1)),avx512,dotprod)
$(foreach r,$(PACKED_ROWS),$(eval PACKED_kernels/$(call col,1,$r)/packed_$(call col,5,$r) := $(call packed_flags,$r)))
$(foreach r,$(PACKED_ROWS),$(if $(filter vbmi,$(call col,4,$r)),\
  $(eval $(OBJ)/kernels/$(call col,1,$r)/packed_$(call col,5,$r).o: MORE = -mavx512vbmi)))
packed_of = $(foreach r,$(filter $(addsuffix :%,$(1)),$(PACKED_ROWS)),\
  $(OBJ)/$(2)kernels/$(call col,1,$r)/packed_$(call col,5,$r).o)
PACKED_OBJS := $(call packed_of,$(patsubst kernels/%,%,$(filter kernels/%,$(DIRS))))
# these contain only intrinsics: -g takes half of gcc's time, and with a sanitizer -O2 gains nothing
$(PACKED_OBJS): OPT := $(if $(DEBUG),-O0,$(if $(SAN),-O1,-O2)) -g1
ELSEWHERE := $(patsubst %.c,$(OBJ)/%.o,$(wildcard $(ISA_ELSEWHERE:%=kernels/%/*.c))) \
             $(filter $(foreach i,$(ISA_ELSEWHERE),$(OBJ)/kernels/$i/%),$(PACKED_OBJS))
$(ELSEWHERE): OPT := -O0
$(ELSEWHERE): SANF :=
$(PACKED_OBJS): $(OBJ)/%.o: kernels/packed.c
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  cc    $< ($*)")
	$(Q)$(CC) $(ALL_CFLAGS) $(ISA) $(PACKED_$*) -MMD -MP -c $< -o $@

# kernels for instruction sets that this machine may lack, from the same sources, emulated with AVX2
ISA_UNIT := $(filter $(OBJ)/tests/kern/isa_%,$(UNIT))
ifeq ($(ARCH),x86_64)
ISA_SRC  := $(wildcard $(addsuffix /*.c,kernels/avxvnni kernels/avx512 kernels/amx tests/isa-emu))
ISA_PACKED := $(call packed_of,avxvnni avx512 amx,isa-emu/)
ISA_OBJS := $(ISA_SRC:%.c=$(OBJ)/isa-emu/%.o) $(ISA_PACKED)
HONE_ISA_EMU := $(OBJ)/hone-isa-emu
endif
$(OBJ)/isa-emu/%.o: ISA = -mavx2 -mfma -mf16c -ffp-contract=fast -Wno-psabi -include tests/isa-emu/emu.h
$(OBJ)/isa-emu/%.o: %.c
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  emu   $<")
	$(Q)$(CC) $(ALL_CFLAGS) $(ISA) -MMD -MP -c $< -o $@
$(ISA_PACKED): OPT := $(if $(DEBUG),-O0,-O1) -g1
$(ISA_PACKED): $(OBJ)/isa-emu/%.o: kernels/packed.c
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  emu   $< ($*)")
	$(Q)$(CC) $(ALL_CFLAGS) $(ISA) $(PACKED_$*) -MMD -MP -c $< -o $@
$(OBJ)/isa-emu/tests/isa-emu/cpu.o: ISA =
$(HONE_ISA_EMU): $(MAIN) $(ISA_OBJS) $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(MAIN) $(ISA_OBJS) $(LIB) $(LIBS)
$(ISA_UNIT): %: %.o $(ISA_OBJS) $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(ISA_OBJS) $(LIB) $(LIBS)
