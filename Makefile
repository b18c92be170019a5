# The commands that people type. Each does what is needed first: nothing has to be installed or built by hand.

.PHONY: help bootstrap build tuned demo demo-router demo-vr test bench bench-first bench-lookup install uninstall deb clean

PREFIX ?= /usr/local

help:
	@echo "make demo            install what is missing, build, and run four servers as one router (a minute)"
	@echo "make demo KEEP=1     the same, left running to look at"
	@echo "make demo-router     one router between three hosts, and the same traffic through testpmd and the kernel"
	@echo "make demo-vr         three virtual routers on one server, isolated from each other in three ways (half a minute)"
	@echo "make papers          the papers' experiments, with a page for each: target/papers/index.html (QUICK=1: ten minutes)"
	@echo "make site            the documents and the manuals of all elements as a website with search, target/site/html"
	@echo "make test            everything that checks the project (ONLY=PART, STRICT=1: skipping is failing)"
	@echo "make build           the release binary, target/release/valiant"
	@echo "make tuned           the same, tuned with a profile of its own run (up to 7 % faster, half an hour, root)"
	@echo "make install         what was built, man pages, completions, examples and a unit for systemd (PREFIX=/usr/local, DESTDIR=)"
	@echo "make uninstall       remove what make install has put there"
	@echo "make deb             a Debian package of the same, in target/deb"
	@echo "make bench           one core, 64-byte packets: forwarding, routing, against DPDK's programs and the Linux kernel (SAVE=DIR)"
	@echo "make bench-first     the first figures: one core, 64-byte packets, against dpdk-testpmd (SAVE=DIR keeps the data)"
	@echo "make bench-lookup    route lookup alone, against DPDK's rte_fib and rte_lpm (SAVE=DIR keeps the data)"
	@echo "make clean           remove what was built"

bootstrap:
	@scripts/bootstrap

build: bootstrap
	@scripts/build

tuned: bootstrap
	@scripts/build --tuned

demo: build
	@scripts/demo

demo-router: build
	@scripts/demo-router

demo-vr: build
	@scripts/demo-vr

.PHONY: papers
papers: build
	@target/release/valiant bench papers experiments $(if $(QUICK),--quick) --results target/papers/results --html target/papers

.PHONY: site
site: bootstrap
	@scripts/site

test:
	@scripts/bootstrap --tools
	@STRICT=$(STRICT) scripts/test $(ONLY)

bench: build
	@scripts/bench $(if $(SAVE),--save $(SAVE))

bench-lookup: bootstrap
	@scripts/bench-lookup $(if $(SAVE),--save $(SAVE)/lookup.json)

bench-first: build
	@scripts/bench-first $(if $(SAVE),--save $(SAVE))

# Root installs what another user has built, so nothing is built here.
install:
	@scripts/install --prefix "$(PREFIX)" --destdir "$(DESTDIR)"

uninstall:
	@scripts/install --uninstall --prefix "$(PREFIX)" --destdir "$(DESTDIR)"

deb: build
	@scripts/deb

clean:
	@scripts/build --clean
