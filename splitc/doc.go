// Package splitc is Split-C as a library: processes with separate address spaces, global
// pointers into all of them, and split-phase reads, writes and stores, as in "Split-C for
// the New Millennium". There is no compiler: each operator of Split-C is a function.
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
// Each process has a spread heap of 256 MiB of virtual memory (Config.HeapSize). An address is an
// offset in the heap. Memory that AllSpreadMalloc allocates, and variables registered with Static,
// have the same address in every process's heap, so Global.On turns a pointer to one process's copy
// into a pointer to another process's copy. A process's own heap is plain memory: ToLocal,
// ToLocalSlice and Array.Local return Go pointers and slices to it.
//
// A heap holds basic types, and arrays and structs of them: types of fixed size
// without Go pointers. Global pointers are such a type. All processes must run the same
// executable, or at least have the same architecture.
//
// # Operations
//
// Read and Write block. Get and Put start an operation, which is complete after Sync. Store
// starts a write and notifies only the receiver, which waits for a number of bytes with
// StoreSync. The two counters are independent: Sync does not complete a Store, and StoreSync
// does not complete a Get or Put. Operations that are in progress at the same time have no
// order. Bulk and strided forms move many elements.
//
// Short stores in quick succession share messages. The last of them may be delayed
// until the process makes another call that waits, or calls Sync or Poll.
//
// The program may change a value argument when the call returns. It must not change slices
// before Sync: the source of a bulk put or store, and the destination of a bulk get. A
// pointer to the calling process itself causes no messages.
//
// Except with shared memory and RDMA, each process accesses its own heap on behalf of the other processes: it serves
// their requests in every call that may wait. A process that computes for a long time should call Poll from time to
// time. Until it does, other processes wait, but do not consider it dead.
//
// # Collectives
//
// All processes call the same collectives in the same order, with equal lengths,
// operations, roots, and types and blocks of spread arrays. If they differ, all processes
// end with a MismatchError that names two of them and their calls. A process that does not
// receive these names within a second returns ErrMismatch with the other's error text. If
// the context of a collective ends, this process has failed; the others still wait in the
// collective.
//
// # Errors
//
// Misuse is an error of the call, which then has no effect: a processor that does not exist, a
// null or unaligned pointer, an address outside allocated memory, a type with pointers, memory
// that overlaps (all ErrArgument), communication in an atomic procedure (ErrInAtomic).
//
// A failure ends the program: a process that dies, leaves early or does not answer
// (job.RankError, which names it), collectives that differ, an owner that refuses a
// request. Split-phase operations have no result, so the next call returns the failure,
// and so do all later calls, including Exit. Operations in progress may or may not
// have completed.
//
// A context that ends is not a failure, except in a collective: operations stay in progress,
// and the program may call Sync again. A wait without a deadline ends after
// Config.WaitTimeout with ErrWaited.
//
// # Layers
//
// Config.Layer, or EnvLayer, selects how operations travel; Layers lists the names.
//
//	shm         the default. Within a host, processes read and write each other's heaps
//	            directly, and barriers use shared memory. Between hosts it is am. One in 256
//	            of the reads, writes and stores within a host polls, so that the process
//	            also serves others and detects failures
//	am          active messages (package endpoint, with AMVIA's credits: 64 short, 8 medium,
//	            1 bulk): a request and a reply for each operation, bulk operations in medium
//	            messages. With Config.Card the messages of am and shm go over a LANai card
//	reliable    VIs of reliable delivery, two for each pair of processes: no handlers, and no
//	            replies to stores; short stores share messages
//	unreliable  VIs of the unreliable level with splitc's own retransmission; stores as in
//	            reliable
//	rdma        RDMA: gets and puts do not involve the owner, and long data is not copied
//
// With the layer shm, all processes of one host must belong to one user.
//
// # Split-C
//
// The names of Split-C's library, and the Go names. The last column says how far the rule
// was checked: V against the paper or programs of the time, M not checked. The number is a
// section of the notes that the authors worked from.
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
//	-                             FetchAdd                            the most common atomic procedure
//	-                             World.Poll                          for processes that compute for a long time
package splitc

// Notes for maintainers, which go doc does not print.
//
// # Why shm is the default
//
// Processes of one host could also use another layer over package vipl's shared memory. Both were
// measured on one machine. With the layer shm, a read takes 20 to 70 ns and needs nothing from the
// other process. With any other layer it takes 2 to 6 µs, for a message in vipl's memory and its
// answer. Long stores take two to seven times as long there, because they are copied twice. So shm is
// the default (docs/performance.md). With it, all processes of a host must belong to one user.
