// Package vmmc is virtual memory-mapped communication, the model of SHRIMP and of "Design
// and Implementation of Virtual Memory-Mapped Communication on Myrinet": a process exports
// memory, another imports it and writes into it, and nobody receives.
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
// An export is memory of the program's own, of any length; it stays usable locally. An
// import is a range of the importer's destination proxy space, which is never read or
// written itself: a send names a place in it, and everything else (node, process, memory)
// follows from that. The whole of a send lies in one import; anything else is refused
// before anything is sent. Behind each import lies a guard page, and no address is used
// again.
//
// # Order
//
// Sends of one importer to one exporter become visible in the order of the calls, whatever
// the network loses. Of one message the last word becomes visible last: a program that sees
// it (Spin, WaitWord, or an atomic load and Poll in a loop) has all of the message. What
// lies between may come in any order. Aligned words of 4 and 8 bytes are never seen half
// written. A program that only looks at its memory drives nothing; Spin, WaitWord and Poll
// do. When no goroutine waits, the NIC's own goroutine takes over within milliseconds.
//
// # Sends
//
// SendMsg returns when its source may be used again: short messages (Config.Short, 128
// bytes as in the paper) are copied and leave at once, longer ones are there when it
// returns. Post is asynchronous; Send.Status, Process.WaitSend or a completion word say
// when the source is free. For short messages both are the same code. Nothing is allocated
// for a send.
//
// # Ends
//
// Export.Unexport and Import.Unimport may be called at any time; when they return, nothing
// of that peer lands there any more, and sends under way have been done or fail with
// ErrUnexported or ErrUnimported. Later sends to the addresses of an import that has ended fail
// with the error that it has ended with, as Import.Done does; of the last 1,024 such imports of a
// process, and with ErrProxy of those before. Process.Close lets what was sent before it arrive, for a
// second at most. When a process ends or does not answer for
// Config.PeerTimeout, what was imported from it fails with ErrPeer, and lists of importers
// lose it; a daemon tells of a dead process sooner. An import that waits for an export waits
// on when its process ends, for the next one of that name. A process that is started again under the same number is another one: old
// imports do not reach it.
//
// # Strangers
//
// Each pair of processes has a connection with a protection tag of its own, and each import
// a memory handle that is never used again, so a process reaches by whatever it sends only
// what was granted to it. One that breaks the rules loses its connection.
//
// # SBL
//
// The calls of the SHRIMP Base Library and their Go names. The source of a rule is a
// section of the VMMC reference; V says that it was verified in SBL's pages or the paper,
// M that it rests on memory, - that no source has it. SBL counts words of 4 bytes; so does
// the type SBL here, all else counts bytes, as the paper does.
//
//	SBL call                  Go name                        rule                                                        source
//	SBL_ExportRecvBuf         Process.Export                 allocates nothing; no overlap; number unique in the process 2 V
//	-                         Policy                         who may import, judged at import                            3 V
//	-                         Export.Unexport                nothing lands after it                                      -
//	-                         Export.Advertise               a word as another name                                      -
//	-                         Export.Redirect                transfers land elsewhere; too late means a copy             10 V
//	SBL_ImportRecvBuf         Process.Import                 blocks until the buffer is exported                         2 V
//	SBL_ImportRecvBufReq      Process.ImportStart            Import.Done and Import.Size tell                            2 V
//	-                         Import.Unimport                nothing lands after it                                      -
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
// # Providers and daemons
//
// Below stands a provider, which moves data and knows nothing of proxies, policies and
// handlers: package vmmc/internal/provider says what it promises. Virtual interfaces are
// one (vmmc/internal/via); the other is the paper's, the control program of a card of the
// emulated Myrinet (vmmc/lanai, Config.Card).
//
// Processes find each other by the daemon of their node (vmmc/daemon; the command is
// bobnet daemon), which also proves whose they are and tells at once who has died. It is
// to run before them. Where none runs, processes answer for their names themselves, no
// user is proven, and deaths are found out by Config.PeerTimeout; both kinds of nodes get
// on with each other. A daemon that ends cuts no import; new imports wait for its
// successor.
package vmmc
