# mk/check.mk - slow checks, and checks that need a different compiler, Python or other programs
check-examples: $(OBJ)/stage.stamp ## the programs of docs/examples against the installed library; also with SAN=thread
	$(Q)HONE=$(abspath $(BIN)) UNITS= SCRIPTS=tests/cli/library.sh CC='$(CC)' SANF='$(SANF)' sh tests/run.sh
check-examples-memory: $(OBJ)/stage.stamp ## the same with each memory request refused in turn (15 minutes)
	$(Q)HONE=$(abspath $(BIN)) EVERY=1 CC='$(CC)' SANF='$(SANF)' sh tests/cli/library-memory.sh
check-isa: $(ISA_UNIT) ## kernels of all instruction sets, emulated
	$(Q)SCRIPTS= UNITS='$(abspath $^)' sh tests/run.sh
extend: ## add a tensor type and an operation to a copy of the tree, as CONTRIBUTING.md says, and use them
	$(Q)CC='$(CC)' sh tests/extend.sh
check-mpi: ## two and three ranks write the bytes of one process (needs Open MPI)
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/mpi MPI=1 all
	HONE=$(abspath $(BUILD)/mpi/hone) sh tests/ranks.sh

# ---- other sanitizers ------------------------------------------------------------------------------------------
CLANG ?= clang
THREADED := test_pool test_ctx test_lib test_lib_handles test_writer test_session test_imatrix test_quantize test_eval \
            test_feedback test_kv test_sens test_mtp test_weight test_pack_cache
PARSERS  := test_gguf test_gguf_edit test_safetensors test_hfdir test_json test_imat_file test_kld_file \
            test_kld_file_top test_tok_bad test_tok_sp test_tok_tekken test_jinja test_toolfmt test_schema test_pixels
# these link only code compiled here: no zlib, PCRE2, utf8proc, libyaml, cJSON, libpng, libjpeg
OURS     := test_gguf test_imat_file test_kld_file test_kld_file_top test_arena test_buf test_fp test_qtype test_pool \
            test_blocks test_enc test_select test_io test_journal test_graph test_sizes test_sample
tsan: ## ThreadSanitizer over the programs with threads (clang)
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan CC='$(CLANG)' SAN=thread HAVE_CUDA=0 \
	  UNITS_OF='$(THREADED)' units-run
msan: ## MemorySanitizer over the programs that need no library of the distribution (clang)
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/msan CC='$(CLANG)' SAN=memory HAVE_CUDA=0 UNITS_OF='$(OURS)' units-run
memcheck: ## valgrind over the parsers and the fuzz corpora
	+@$(MAKE) --no-print-directory UNITS_OF='$(PARSERS)' \
	  WRAP='valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite' units-run

units-run: $(UNITS_OF:%=$(OBJ)/tests/unit/%) $(if $(WRAP),$(FUZZ:%=$(OBJ)/tests/fuzz/%))
	$(Q)SCRIPTS= UNITS='$(abspath $^)' WRAP='$(WRAP)' sh tests/run.sh

FAULTS ?= 500
faults: ## 500 injected faults over `make`, under ASan+UBSan -> docs/results/faults.json (an hour)
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/san SAN=address,undefined faults-run
faults-run: all $(FAULT)
	HONE=$(abspath $(BIN)) HONE_FAULTY=$(abspath $(FAULT)) sh tests/faults.sh $(FAULTS) docs/results/faults.json

bench-gram: $(OBJ)/bench/gram ## the program that bench/gram.py runs; prints its path
	@echo $<
check-published: all ## published folders and requests against other libraries (Python) -> docs/results/published.json
	$(Q)HONE=$(abspath $(BIN)) $(PYTHON) tests/published/run.py --json docs/results/published.json
check-gram: $(OBJ)/bench/gram_texts ## masks against other libraries (Python) -> docs/results/gram-judge.json
	$(Q)sh tests/gram/run.sh $(abspath $<) $(abspath $(BUILD))/gram-judge docs/results/gram-judge.json
bench-blas: $(OBJ)/bench/blas ## the program that bench/blas.py runs; prints its path
	@echo $<
bench-feedback: $(OBJ)/bench/feedback ## the program that bench/quantize-speed.sh feedback runs; prints its path
	@echo $<
bench-rows: $(OBJ)/bench/rows ## the program that bench/rows.py runs; prints its path
	@echo $<

# ---- fuzzing: `make fuzz` builds build/fuzz/fuzz_*; FUZZ_S=600 also runs each for 600 s ----------------------------
FUZZ_S ?= 0
fuzz: ## build the libFuzzer targets with clang; FUZZ_S=600 runs each for 600 s
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz CC=clang \
	  CFLAGS='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer' fuzz-bins
	@if [ $(FUZZ_S) -gt 0 ]; then for t in $(FUZZ:fuzz_%=%); do \
	  mkdir -p $(BUILD)/fuzz/corpus/$$t && $(BUILD)/fuzz/fuzz_$$t -max_total_time=$(FUZZ_S) -timeout=10 \
	    -rss_limit_mb=4096 -artifact_prefix=$(BUILD)/fuzz/$$t- \
	    $(BUILD)/fuzz/corpus/$$t tests/fuzz/corpus/$$t || exit 1; done; fi
# one day of processor time in total; interruptible: the next run resumes
FUZZ_CPU_S ?= 3600
FUZZ_RUNS := $(filter-out grammar,$(FUZZ:fuzz_%=%)) grammar:s grammar:g grammar:l grammar:r
fuzz-hour: fuzz ## run each fuzz target for FUZZ_CPU_S (3600) seconds of processor time -> build/fuzz/soak/*.json
	$(Q)nice -n 19 sh tests/fuzz/soak.sh $(BUILD)/fuzz $(BUILD)/fuzz/soak $(FUZZ_CPU_S) $(FUZZ_RUNS)
fuzz-bins: $(FUZZ:%=$(BUILD)/%)
$(BUILD)/fuzz_%: $(OBJ)/tests/fuzz/fuzz_%.o $(LIB)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer,address,undefined -o $@ $< $(LIB) $(LIBS)

CLIENTS ?= # sdk, litellm, aider; empty: all
test-clients: all ## client libraries against hone serve (Python; pip installs them into build/clients the first time)
	$(Q)sh tests/clients/run.sh $(abspath $(BIN)) $(TINY) $(abspath $(BUILD))/clients $(CLIENTS)
SOAK_SERVE ?= 7200
soak-serve: all ## two hours of mixed traffic against hone serve (SOAK_SERVE=SECONDS); memory must stay flat
	$(Q)$(BUILD)/hone convert $(TINY) -o $(BUILD)/soak-base.gguf -f -q > /dev/null
	$(Q)$(BUILD)/hone quantize $(BUILD)/soak-base.gguf -o $(BUILD)/soak.gguf --recipe Q8_0 -f -q > /dev/null
	$(Q)python3 bench/serve_soak.py $(BUILD)/soak.gguf --hone $(BUILD)/hone --seconds $(SOAK_SERVE)
interop: all $(OBJ)/tests/micro ## our files in another engine: logits compared (Python; pip builds it into build/peer)
	$(Q)HONE=$(BUILD)/hone MICRO=$(OBJ)/tests/micro sh tests/interop.sh

.PHONY: check-examples check-examples-memory check-isa extend check-mpi faults faults-run tsan msan memcheck units-run \
        check-published check-gram bench-gram bench-blas bench-rows bench-feedback fuzz fuzz-hour \
        fuzz-bins test-clients soak-serve interop
