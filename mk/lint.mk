# mk/lint.mk - lint, formatting, static analysis, and the tables and pages generated from the sources.
CUDA_FILES := $(CUDA_SRC) $(wildcard kernels/cuda/*.cuh quantize/enc/cuda/*.cuh tests/cuda-emu/*pp tests/cuda-emu/*.cu)
C_DIRS  := $(DIRS) $(OTHER_DIRS) kernels/cuda quantize/enc/cuda cli commands docs/examples \
           $(addprefix tests/,. cuda-emu isa-emu unit kern fuzz)
C_FILES := $(patsubst tests/./%,tests/%,$(wildcard $(addsuffix /*.[ch],$(C_DIRS))))
lint: $(HONE_H) $(MAN) ## what a compiler does not check: tests/lint/*.sh; L=comments: one of them
	$(Q)CC='$(CC)' HONE='$(abspath $(BIN))' HONE_GEN='$(abspath $(GEN))' \
	   SANF='$(SANF)' L='$(L)' sh tests/lint.sh $(sort $(C_FILES) $(CUDA_FILES))
map: ## the purpose of every file, by folder, from its first comment: build/MAP.md
	$(Q)mkdir -p $(BUILD) && sh mk/map.sh > $(BUILD)/MAP.md && echo $(BUILD)/MAP.md
models-table: all ## the table in docs/models.md, from the registry and the tests
	$(Q)HONE='$(abspath $(BIN))' sh tests/models.sh --write
python-steps: $(GEN)/steps.py ## hone_gguf/steps.py of the Python package, from hone.h and commands/
$(GEN)/steps.py: python/make_steps.py $(HONE_H)
	$(Q)$(GEN)/gen fields > $(GEN)/fields && $(PYTHON) $< $(HONE_H) $(GEN)/fields > $@.new && mv $@.new $@
reference: $(OBJ)/tests/unit/test_lib_forms ## docs/reference.md, from the tables of the commands and of the library
	$(Q)$< docs/reference.md
format: ## clang-format every C file in place
	clang-format -i $(sort $(C_FILES) $(CUDA_FILES))
# what these three check, and which warnings are off and why: docs/sanitizers.md
# one file at a time: over several, clang-tidy 14 reports every va_list of the later ones as uninitialized
tidy: $(HONE_H) ## clang-tidy (.clang-tidy) over everything except kernels
	printf '%s\n' $(filter-out kernels/%,$(SRC)) $(CLI) | xargs -P 2 -n 1 sh -c 'clang-tidy --quiet \
	  --warnings-as-errors="*" "$$@" -- -std=c11 -D_GNU_SOURCE -DHONE_ANALYZE -DHONE_VERSION=\"0\" \
	  -I. -I$(GEN) $(LIB_CFLAGS) -Wno-unused-value' tidy
# one configuration: without -D it tries every combination of __GNUC__, __clang__ and the like, an hour
cppcheck: $(HONE_H) ## cppcheck over the library
	mkdir -p $(BUILD)/cppcheck && cppcheck -q -j 2 --std=c11 -D__GNUC__=12 -D__x86_64__ -D__BYTE_ORDER__=1234 \
	  -D__ORDER_LITTLE_ENDIAN__=1234 -DHONE_MPI -DHONE_VERSION='"0"' --enable=warning,performance,portability \
	  --suppressions-list=tests/cppcheck.supp \
	  --error-exitcode=1 --cppcheck-build-dir=$(BUILD)/cppcheck -I. -I$(GEN) $(DIRS) cli
analyze: ## gcc -fanalyzer over the library and the program; false positives are in tests/analyze.supp
	@rm -rf $(BUILD)/analyze && mkdir -p $(BUILD)/analyze
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/analyze HAVE_CUDA=0 \
	  CFLAGS='-fanalyzer -DHONE_ANALYZE -Wno-unused-value' all \
	  2>$(BUILD)/analyze/log || { cat $(BUILD)/analyze/log; exit 1; }
	@sh tests/analyze.sh $(BUILD)/analyze/log

.PHONY: lint map models-table python-steps reference format tidy cppcheck analyze
