// Package vmmc is virtual memory-mapped communication, the model of SHRIMP and of "Design
// and Implementation of Virtual Memory-Mapped Communication on Myrinet". A process exports
// memory. Another process imports it and writes into it. The exporter calls no receive.
//
//	// the receiver
//	p, err := vmmc.Open(ctx, &vmmc.Config{Process: 1})
//	board := make([]byte, 1<<20)
//	e, err := p.Export(board, 7, vmmc.Everybody, func(n vmmc.Notification) { ... })
//	now, err := p.Spin(ctx, vmmc.Word(board, 0), 0) // until the word is not 0 any more
//
//	// the sender
//	q, err := vmmc.Open(ctx, &vmmc.Config{Process: 2})
//	i, err := q.Import(ctx, vmmc.Name{Process: 1, ID: 7}) // blocks until there is such an export
//	err = q.SendMsg(ctx, data, i.Addr()+4096)
//
// # Memory
//
// An export is memory of the program, of any length; the program can use it as before. An
// import is a range of the importer's destination proxy space: addresses that only sends
// use, and that nobody can read or write. A proxy address determines node, process and
// memory. A send must lie within one import; any other send fails before data is sent. A
// guard page follows each import, and addresses are never reused.
//
// # Order
//
// Sends from one importer to one exporter become visible in the order of the calls, even over a
// network that loses frames. The last word of a message becomes visible last: a program that sees
// it (Spin, WaitWord, or an atomic load and Poll in a loop) has the whole message. The other words
// may become visible in any order. Aligned words of 4 and 8 bytes are never seen half written.
// Reading memory does not drive the network; Spin, WaitWord and Poll do. When no goroutine waits,
// the NIC's own goroutine takes over within milliseconds.
//
// # Sends
//
// SendMsg returns when its source may be used again. Short messages (Config.Short, 128
// bytes as in the paper) are copied and sent at once; longer messages have arrived when
// SendMsg returns. Post is asynchronous; Send.Status, Process.WaitSend or a completion word
// report when the source is free. For short messages SendMsg and Post are the same. Sends
// do not allocate.
//
// # Closing and failures
//
// Export.Unexport and Import.Unimport may be called at any time. When they return, the peer cannot write to the
// memory any more. Sends in flight have completed, or fail with ErrUnexported or an error that the import was given
// up. Later sends to the import fail with the error that ended it (Import.Done). A process keeps this error for its
// last 1,024 ended imports; sends to older ones fail with ErrProxy. Process.Close waits up to a second for earlier
// sends to arrive.
//
// If a process ends or does not answer for Config.PeerTimeout, imports from it fail with
// ErrPeer, and its own imports disappear from Export.Importers. A daemon reports a dead
// process sooner. If the exporter ends, an Import call that waits for an export keeps
// waiting for the next process of that name. A restarted process with the same number is
// a new process: old imports do not reach it.
//
// # Security
//
// Each pair of processes has a connection with its own protection tag, and each import has
// a memory handle that is never reused. A process can therefore access only memory that
// was granted to it. A process that breaks the rules loses its connection.
//
// # SBL
//
// The calls of the SHRIMP Base Library and their Go names. The last column says how far the
// rule was checked: V against SBL's pages or the paper, M not checked, - is an addition. The
// number is a section of the notes that the authors worked from. SBL counts words of 4
// bytes. The type SBL does so, too; everything else counts bytes, as the paper does.
//
//	SBL call                  Go name                        rule                                                        source
//	SBL_ExportRecvBuf         Process.Export                 allocates nothing; no overlap; number unique in the process 2 V
//	-                         Policy                         who may import, checked at import                            3 V
//	-                         Export.Unexport                no data is written after it returns                         -
//	-                         Export.Advertise               a word as another name                                      -
//	-                         Export.Redirect                writes go elsewhere; late ones are copied                   10 V
//	SBL_ImportRecvBuf         Process.Import                 blocks until the buffer is exported                         2 V
//	SBL_ImportRecvBufReq      Process.ImportStart            Import.Done and Import.Size report the outcome              2 V
//	-                         Import.Unimport                no data is written after it returns                         -
//	SBL_SendMsg               Process.SendMsg                all of it in one import; may be called in handlers          2 V
//	SBL_SendMsgWithNotify     Process.SendMsgWithNotify      the handler runs when the data is in memory                 4 V
//	SendMsg, asynchronous     Process.Post                   a status call says when the source is free                  5 V
//	-                         Process.SendGather             several pieces as one message                               -
//	SBL_BlockNotifications    Process.BlockNotifications     a nesting counter; blocked ones are queued                  4 V
//	SBL_UnblockNotifications  Process.UnblockNotifications   ErrNotInHandler for a handler's own block                   4 V
//	SBL_Importers             Export.Importers               who has imported a buffer                                   2 V
//	SBL_Hosts                 Process.Hosts                  the nodes of the job                                        2 M
//	SBL_PageSize              PageSize                       4096                                                        2 V
//	SBL_WordSize              WordSize                       4                                                           2 V
//	SBL_Error                 -                              errors are values                                           2 M
//
// # Daemons
//
// A node may run a daemon (bobnet daemon, package vmmc/daemon). Start it before the
// processes. It matches exports and imports, authenticates the users of processes, and
// reports dead processes at once. Without a daemon, processes answer for their own names,
// no user is authenticated, and a dead process is detected after Config.PeerTimeout. Nodes
// with and without a daemon work together. Imports survive a daemon restart; new imports wait
// for the next daemon.
package vmmc

// Notes for maintainers, which go doc does not print.
//
// # Providers and daemons
//
// Below the processes is a provider, which moves data and knows nothing of proxies, policies and
// handlers. Package vmmc/internal/provider documents its contract. There are two: virtual
// interfaces (vmmc/internal/via), and the paper's control program on a card of the emulated Myrinet
// (vmmc/lanai, Config.Card).
