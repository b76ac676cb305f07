# attnd: `make help` lists what there is to do.
#
# MODE picks a build; each has a folder of its own, so switching rebuilds nothing:
#   release  what ships        debug  -O0 -g
#   asan     AddressSanitizer and UBSan        tsan  ThreadSanitizer
#   fuzz     clang's libFuzzer beside AddressSanitizer and UBSan; `make fuzz` picks it
# V=1 shows every command; without it a word and a file.

MODE ?= release
B := build/$(MODE)
VERSION := 0.1.0
REVISION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)

CC = gcc
PACKAGES := libmicrohttpd jansson openblas libuv
WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
MODE_release := -O3 -g
MODE_debug := -O0 -g
MODE_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
MODE_tsan := -O1 -g -fsanitize=thread
MODE_fuzz := $(MODE_asan) -fsanitize=fuzzer-no-link
ifeq ($(MODE),fuzz)
CC = clang
WARNINGS := # they are judged by gcc alone
endif
ifeq ($(MODE_$(MODE)),)
$(error MODE=$(MODE) is unknown; use release, debug, asan, tsan or fuzz)
endif

CPPFLAGS += -D_GNU_SOURCE -Iinclude -Icore -I.
CFLAGS += -std=c11 $(MODE_$(MODE)) $(WARNINGS)
LDLIBS += $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lpthread -lm

# Only an overlay's own file may use its instructions: the CPU is asked before it is called.
FLAGS_avx2 := -mavx2 -mfma -mf16c
FLAGS_avx512 := -mavx512f -mprefer-vector-width=512

core_c := $(wildcard core/*.c core/*/*.c)
ifneq ($(shell uname -m),x86_64)
core_c := $(filter-out %_avx2.c %_avx512.c,$(core_c))
endif
server_c := $(filter-out server/main.c,$(wildcard server/*.c server/*/*.c))
tests := $(patsubst tests/%.c,%,$(wildcard tests/test_*.c))
fuzzers := $(patsubst tests/%.c,%,$(wildcard tests/fuzz_*.c))
corpora := $(fuzzers:fuzz_%=test_corpus_%)
benches := $(patsubst tests/bench/%.c,%,$(wildcard tests/bench/bench_*.c))

# $(call say,CC,file), then $(Q)command.
say = $(if $(V),,@echo '$(1) $(2)')
Q := $(if $(V),,@)

object = $(patsubst %.c,$B/obj/%.o,$(1))
core_o := $(call object,$(core_c))
server_o := $(call object,$(server_c))
support_o := $(call object,$(wildcard tests/support/*.c))
bench_support_o := $(call object,$(wildcard tests/bench/support/*.c))

.PHONY: always help deps build run check bench bench-serving format clean tests fuzz deploy-check image-check
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 15
	@echo; echo 'MODE=release|debug|asan|tsan|fuzz picks the build (now $(MODE), in $B/); V=1 shows every command.'

deps: ## install the Debian packages that are missing, those of the tests included
	@deploy/install-deps.sh test

build: ## build the daemon, build/<mode>/attnd, and libattn.a
	@deploy/install-deps.sh
	@$(MAKE) --no-print-directory -j$(shell nproc) $B/attnd

demo := build/demo-models/demo

run: build $(demo)/config.json ## build, write a demo model once, and start the daemon on 127.0.0.1:8080
	$B/attnd serve --model-dir build/demo-models

$(demo)/config.json: | build
	$B/attnd init-model $(@D) --force

check: deps ## build and run every test
	@$(MAKE) --no-print-directory -j$(shell nproc) $B/attnd tests
	@MODE=$(MODE) tests/run.sh $B

tests: $(tests:%=$B/%) $(corpora:%=$B/%) $(if $(filter release debug,$(MODE)),$B/fail_alloc.so)

fuzz: ## fuzz what reads clients' bytes, SECONDS=60 each; TARGET=body for one
	@tests/fuzz.sh "$(or $(SECONDS),60)" $(TARGET)

bench: deps ## print every speed ratio beside its target
	@$(MAKE) --no-print-directory -j$(shell nproc) $(benches:%=$B/%)
	@for b in $(benches); do $B/$$b || exit; done

bench-serving: build ## measure the daemon from outside; LONG=1 adds 100,000 mixed requests
	@/usr/bin/python3 tests/bench/bench_serving.py $B/attnd $(if $(LONG),--long)

format: ## lay out every C file as .clang-format says (Debian's clang-format)
	clang-format -i $(shell git ls-files --cached --others --exclude-standard '*.c' '*.h')

clean: ## remove everything that was built
	rm -rf build

deploy-check: build ## try the files in deploy/: their tools, a running daemon
	@tests/deploy/check.sh $B/attnd

image-check: ## build the Dockerfile and try the image, as root
	@tests/image/check.sh

$B/libattn.a: $(core_o)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)ar rcs $@ $^

$B/attnd: $(call object,server/main.c) $(server_o) $B/libattn.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$B/test_%: $B/obj/tests/test_%.o $(support_o) $(server_o) $B/libattn.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcunit $(LDLIBS)

$B/test_corpus_%: $B/obj/tests/fuzz_%.o $B/obj/tests/corpus/replay.o $(support_o) $(server_o) $B/libattn.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcunit $(LDLIBS)

$B/fuzz_%: $B/obj/tests/fuzz_%.o $(support_o) $(server_o) $B/libattn.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ -lcunit $(LDLIBS)

# Programs that answer requests without loop and workers, and those whose allocations can fail.
with_models := $(foreach name,attend query,$B/test_corpus_$(name) $B/fuzz_$(name))
inline_programs := $B/test_alloc $(with_models)
taken_over := srv_executor_submit srv_executor_load srv_loop_finished
comma := ,
allocators := malloc calloc realloc reallocarray aligned_alloc free
injected := $B/test_alloc $B/test_model_alloc
$(inline_programs): $B/obj/tests/inline/serve.o
$(with_models): $B/obj/tests/inline/models.o
$(inline_programs): LDFLAGS += $(taken_over:%=-Wl,--wrap=%)
$(injected): $B/obj/tests/alloc/inject.o
$(injected): LDFLAGS += $(allocators:%=-Wl,--wrap=%)

# Who holds a model, tested on models that are one number.
registry_programs := $B/test_registry $B/test_registry_turns $B/test_models_folder
$(registry_programs): $B/obj/tests/inline/model.o $B/obj/tests/inline/stage.o
$(registry_programs): LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=attn_model_%,open close info_of)

$B/fail_alloc.so: tests/alloc/fail_alloc.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) -std=c11 -O2 $(WARNINGS) -fPIC -shared -o $@ $<

$B/bench_%: $B/obj/tests/bench/bench_%.o $(bench_support_o) $B/obj/tests/support/folder.o $(server_o) $B/libattn.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$B/obj/%_avx2.o: CFLAGS += $(FLAGS_avx2)
$B/obj/%_avx512.o: CFLAGS += $(FLAGS_avx512)
# Drawn numbers are the same on every machine: no contraction into multiply-adds.
repeatable := random plain_math mixers/directions model/untrained
$(repeatable:%=$B/obj/core/%.o): CFLAGS += -ffp-contract=off
# A stamp that changes with the revision, so that the binary never names another commit.
$B/revision: $(if $(filter $(REVISION),$(shell cat $B/revision 2>/dev/null)),,always)
	@mkdir -p $(@D)
	@echo '$(REVISION)' >$@
$B/obj/server/version.o: $B/revision
$B/obj/server/version.o: CPPFLAGS += -DATTND_VERSION='"$(VERSION)"' -DATTND_REVISION='"$(REVISION)"'

$B/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

.SECONDARY:
-include $(shell find $B/obj -name '*.d' 2>/dev/null)
