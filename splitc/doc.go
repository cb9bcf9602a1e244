// Package splitc is Split-C as a library: processes with an address space each, global
// pointers into all of them, and split-phase reads, writes and stores, as "Split-C for the
// New Millennium" describes them. There is no compiler: what was an operator is a call.
//
//	w, err := splitc.Start(ctx, nil)
//	if err != nil {
//		return err
//	}
//	a, err := splitc.AllSpreadMalloc[float64](ctx, w, w.Procs(), 1024)
//	if err != nil {
//		return err
//	}
//	a.Local(w)[0] = float64(w.MyProc())
//	if err := w.Barrier(ctx); err != nil {
//		return err
//	}
//	next := (w.MyProc() + 1) % w.Procs()
//	x, err := splitc.Read(ctx, w, a.On(next))
//	if err != nil {
//		return err
//	}
//	fmt.Println("processor", next, "has", x)
//	return w.Exit(ctx)
//
// # Memory
//
// Each process has a spread heap, of 256 MB of virtual memory unless Config says
// otherwise. What AllSpreadMalloc allocates, and what Static registers in place of
// variables of the data segment, has equal addresses in all heaps, so that a pointer to
// one's own memory is one to everybody's (Global.On). An address is an offset in the heap.
// A process's own part of a heap is plain memory: ToLocal, ToLocalSlice and Array.Local
// return it as Go pointers and slices.
//
// A heap holds the basic types, and arrays and structs of them: anything of fixed size
// without pointers of Go's, and so global pointers, too. All processes are of one
// executable, or at least of one architecture.
//
// # Operations
//
// Read and Write block. Get and Put start, and are complete after Sync. Store starts, and
// the process whose memory it changes learns how many bytes have come by StoreSync; the
// one that stores learns nothing. A Store followed by Sync is not complete, nor is a Get
// or Put followed by StoreSync: the two counters are independent. Between operations that
// are under way at the same time there is no order. Bulk and strided forms do the same to
// many elements.
//
// Short stores that follow each other closely share messages: the last few of them may be
// held back until the process makes another call that waits, Sync or Poll for example.
//
// Values may be changed when the call returns. Slices may not: the source of a bulk put
// or store, and the destination of a bulk get, stay untouched until Sync. A pointer to
// the process itself never leaves it.
//
// No layer but shared memory and RDMA changes a heap without its process: a process
// serves the others in every call that may wait, and a process that computes for long
// calls Poll now and then. What the others wait for takes until then; they do not take it
// for dead.
//
// # Collectives
//
// All processes call the same collectives in the same order, with equal lengths,
// operations and roots; spread arrays are of equal types and blocks, too. Where they
// differ, all processes end with a MismatchError that names two of them and what they
// have called; one that is not told that within a second of the end of another ends with
// ErrMismatch and the other's words. A collective whose context ends leaves the others in
// it, and is a failure of this process.
//
// # Errors
//
// Misuse is an error of the call that is wrong, which then has done nothing: a processor
// that does not exist (ErrProcessor), a null pointer (ErrNull), an address outside of
// what is allocated (ErrOutside, ErrFreed) or unaligned (ErrUnaligned), a type with
// pointers (ErrType), memory that overlaps (ErrOverlap), communication by an atomic
// procedure (ErrInAtomic).
//
// A failure ends the program: a process that dies, leaves early or answers no more
// (job.RankError, which names it), collectives that differ, an owner that refuses what it
// was asked. Split-phase operations have no result of their own, so a failure comes up in
// the next call, of whatever kind, and in all that follow, Exit included. What was under
// way is then neither known to be done nor known not to be.
//
// The end of a context is neither: operations stay under way, and Sync may be called
// again. A wait without a deadline ends after Config.WaitTimeout with ErrWaited.
//
// # Layers
//
// Config.Layer, or EnvLayer, says what carries the operations; Layers lists them.
//
//	shm         the default: within a host, reads and writes of the other heap itself, and
//	            a barrier in memory, with a tree between one process of each host, whatever
//	            the numbers of its processes; am between hosts. Reductions that depend on
//	            the order of processes, and scans, go along a tree of all. Reads, writes
//	            and stores within a host take no message, and one in 256 of them polls, so
//	            that a process which does only these serves the others, too, and hears of
//	            failures
//	am          active messages (package endpoint, AMVIA's credits: 64 short, 8 medium, 1
//	            bulk): a request and a reply for each primitive, bulk operations in medium
//	            messages. Config.Card has them, and those of shm, go over a LANai card
//	reliable    VIs of reliable delivery, two between two processes: no handlers, and no
//	            replies to stores, of which short ones share messages
//	unreliable  VIs of the unreliable level, with a window of its own, which is the credits;
//	            stores as over reliable ones
//	rdma        RDMA: the owner takes no part in gets and puts, and long data are not copied
//
// Processes of one host could also use another layer over package vipl's shared memory.
// Both were measured, on one machine: a read is 20 to 70 ns by the layer shm, whose other
// process does nothing for it, and 2 to 6 us by a message in vipl's memory and its answer,
// over any of the other layers; long stores take two to seven times as long there, since they are
// copied twice. So shm is the default (docs/figures.md). Its processes of a host are all of one user.
//
// # Split-C
//
// The names of Split-C's library, and the Go names. V: the rule was verified in the paper
// or in programs of the time, M: it rests on memory (Split-C reference).
//
//	Split-C                       Go name                             rule                                          source
//	splitc_main                   Start, Open                         one program, PROCS processes                  4 V
//	splitc_exit                   World.Exit, World.Close             waits for all                                 4 M
//	PROCS, MYPROC                 World.Procs, MyProc                 MYPROC is 0 to PROCS-1                        1 V
//	T *global                     Global                              processor and local address                   2 V
//	tolocal                       ToLocal, ToLocalSlice               the local address part                        2 V
//	toproc                        Global.Proc                         the processor part                            2 M
//	toglobal                      ToGlobal, Global.On                 a pointer of processor and address            2 M
//	p + n                         Global.Add                          on the same processor                         2 M
//	T *spread                     Spread                              arithmetic over processors first              2 V M
//	A[PROCS]::[M]                 Array                               left of :: over processors                    2 V M
//	all_spread_malloc             AllSpreadMalloc                     collective, equal addresses                   2 V
//	all_spread_free               AllSpreadFree                       collective                                    2 V
//	data segment                  Static, Variable                    equal addresses of globals                    2 V
//	x = *p                        Read                                get and sync                                  3 V
//	*p = x                        Write                               put and sync                                  3 V
//	x := *p                       Get                                 until Sync                                    3 V
//	*p := x                       Put                                 the value may be changed at once              3 V M
//	*p :- x                       Store                               signals the receiver only                     3 V
//	sync, is_sync                 World.Sync, IsSync                  gets and puts of this process                 3 V M
//	store_sync                    World.StoreSync                     bytes stored here since the last one          3 V M
//	all_store_sync                World.AllStoreSync                  collective                                    3 V M
//	barrier                       World.Barrier                       two phases over a binary tree                 3 V
//	bulk_read, bulk_write         BulkRead, BulkWrite                 blocking                                      3 V M
//	bulk_get, bulk_put            BulkGet, BulkPut                    until Sync                                    3 V M
//	bulk_store                    BulkStore                           until the receiver's StoreSync                3 V M
//	strided forms                 StridedGet and so on                as bulk forms, of blocks at equal distances   M
//	all_bcast                     Broadcast, BroadcastSlice           any root                                      4 V M
//	all_reduce_to_one_add ...     ReduceToOne                         Add, Min, Max, Mul, And, Or, Xor              4 V M
//	all_reduce_to_all_add ...     ReduceToAll, ReduceSliceToAll       the same, with the result in all              4 V M
//	all_scan_*                    Scan, ExclusiveScan, SegmentedScan  of the processes up to this one               4 V M
//	all_gather, all_scatter       Gather, AllGather, Scatter          all parts to one or to all, and back          4 M
//	on_one                        World.OnOne                         no communication                              4 V
//	get_seconds                   World.Seconds                       the NIC's clock                               4 V
//	for_my_1d, for_my_2d          Array.Mine, Mine2D                  one's own part                                4 M
//	atomic                        Atomic, Procedure.Call              at the owner, one at a time                   4 M
//	-                             FetchAdd                            the commonest of these
//	-                             World.Poll                          for processes that compute long
package splitc
