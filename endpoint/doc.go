// Package endpoint is active messages between endpoints that form virtual
// networks: AM-II, the interface of "Virtual Network Transport Protocols for
// Myrinet", built over VIA as "Split-C for the New Millennium" has it (AMVIA).
//
// A message names a handler, a function of the receiver, that gets its
// arguments and its data and may answer by one reply. A program opens a node,
// makes bundles on it, endpoints in these, tells the endpoints' names to
// others, and maps theirs:
//
//	node, err := endpoint.Open(ctx, &endpoint.Config{Interface: "eth0"})
//	bundle, err := node.NewBundle(endpoint.Sequential)
//	ep, err := bundle.NewEndpoint()
//	ep.SetTag(tag)
//	ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { ... })
//	err = ep.Map(0, serverName, serverTag)
//	err = ep.Request(ctx, 0, hEcho, 1, 2, 3)
//	_, err = bundle.WaitPoll(ctx) // runs hReply
//
// # Messages
//
// Short ones have up to 16 arguments of 32 bits. Medium ones have besides a
// payload, which the handler gets where it was received. Bulk ones place data
// in the receiver's segment, at an offset of the sender's choice, before the
// handler runs; Get fetches from there. Replies may be of any size, whatever the
// request's was. Requests of one translation are handled in the order in which
// they were sent, except that a long bulk request counts from the moment when
// its data has come, and that those which come back are left out. Replies are handled in
// the order in which they come.
//
// Bulk data beyond the length of a medium message is not sent before the
// receiver has checked where it is to go, and has named the place: it is then
// written by RDMA from where it lies to where it belongs. So a message that is
// refused has written nothing, unless its tag or handler went away in between,
// and nobody holds a right to write that outlives one message. A round trip is
// what this costs.
//
// # Progress
//
// Handlers run on the goroutine that polls, and nowhere else: in Poll and
// WaitPoll, and in requests and calls. Every request handles what has been taken
// in. It takes in more if there is no credit; else those of a stream do so now
// and then, and those that come microseconds apart each do, but for the first few.
// AM-II's requests poll each time, and none could share a frame with another. Replies never wait
// (slot.go says why, and why nothing can deadlock), and never poll: their
// handler is run by one that does (AM2 reference, section 8). A request handler
// must not block, and may do nothing but reply, or have the reply sent later (Token.Defer).
//
// A message goes at once if no other one is under way. The requests of a stream are
// corked, and share a message of the VI, until that is full, what went
// before has been acknowledged, or the caller polls or waits; the replies to
// them wait until a poll has run its handlers. So a program that computes for
// long after requests should Poll once before.
//
// # Errors
//
// A message that cannot be delivered, or is refused, comes back to the endpoint
// that has sent it, once, with a Reason; SetReturnHandler says who looks at it.
// Without that a request ends the process, as AM-II has it. A reply, which comes back because
// its client has ended or takes nothing, is counted and logged; AM-II's default handler ends the
// process for it, too (Config.ExitForReplies). Where Call sends, it
// returns an error instead. A request that has come back for ReasonUnreachable
// or ReasonBadEndpoint may have been handled, if the connection broke before its
// answer came, or, between cards, the answer could not be delivered and came back, too. What waits for a credit when the connection breaks comes back behind
// what is under way, in the order of sending. The functions return the codes of AM-II as sentinel errors.
//
// # Virtual networks
//
// Endpoints that map each other and have each other's tags are a virtual
// network. A message is accepted if it carries its receiver's tag. What one
// virtual network sends takes nothing from another: each connection has its
// own buffers, and they take turns when a bundle is polled.
//
// # AM-II
//
// The calls of AM-II and their Go names. V: the rule was verified in a source of
// the time, M: it rests on memory (AM2 reference).
//
//	AM-II call                 Go name                    rule                                                     source
//	AM_Init                    Open                       a node on one NIC; a program may have several            3 V
//	AM_Terminate               Node.Close                 frees all bundles                                        3 V
//	AM_AllocateBundle          Node.NewBundle             Sequential or Parallel                                   3 V
//	AM_FreeBundle              Bundle.Free                frees its endpoints too                                  3 V
//	AM_AllocateEndpoint        Bundle.NewEndpoint         tag TagNone, no handlers                                 5 V
//	AM_FreeEndpoint            Endpoint.Free              senders get back what was not answered                   3 V
//	AM_MoveEndpoint            Endpoint.Move              name, connections and waiting messages go with it        8 V
//	AM_SetSeg, AM_GetSeg       Endpoint.SetSegment        ErrInUse while a bulk message or long get uses it        3 V
//	AM_MaxSegLength            -                          no limit
//	AM_SetTag, AM_GetTag       Endpoint.SetTag            decides about all messages that were not handled         8 V
//	AM_Map                     Endpoint.Map               connects when the first message is sent                  8 V
//	AM_MapAny                  Endpoint.MapAny            the lowest free index                                    3 V
//	AM_UnMap                   Endpoint.Unmap             requests under way end as usual                          8 V
//	AM_GetTranslationName ...  Endpoint.Translation       name, tag, and whether it is in use                      3 V
//	AM_SetNumTranslations      Endpoint.SetNumTranslations  never cuts off an entry in use                         8 V
//	AM_GetNumTranslations      Endpoint.NumTranslations   256 at least                                             8 V
//	AM_MaxNumTranslations      MaxTranslations
//	AM_MaxShort                MaxShort                   arguments                                                2 V
//	AM_MaxMedium               Config.MaxMedium           MaxMediumLimit at most                                   2 V
//	AM_MaxLong                 MaxBulk                                                                             2 V
//	AM_SetHandler              Endpoint.SetHandler        1..255                                                   5 V
//	AM_MaxNumHandlers          NumHandlers                also AM_GetNumHandlers; the table does not grow, because
//	AM_SetNumHandlers          -                          a message names its handler by 8 bits
//	AM_SetHandlerAny           Endpoint.AddHandler        the first unused, never 0                                5 V
//	AM_SetHandler(0)           Endpoint.SetReturnHandler  the default ends the process, but not for replies        5 V
//	AM_SetExpectedResources    Config                     the same for all endpoints of a node; needed for nothing 8 V
//	AM_SetEventMask            Bundle.SetEventMask        NoEvents, NotEmpty                                       8 V
//	AM_GetEventMask            Bundle.EventMask                                                                    8 V
//	AM_WaitSema                Bundle.Wait                ErrNoEvents when it would never return                   8 V
//	AM_Poll                    Bundle.Poll                all endpoints of the bundle                              8 V
//	AM_RequestM                Endpoint.Request           waits for a credit, unless Config.FailWithoutCredit      9 V
//	AM_RequestIM               Endpoint.RequestMedium     the same                                                 9 V
//	AM_RequestXferM            Endpoint.RequestBulk       returns when the data may be changed                     9 V
//	AM_RequestXferAsyncM       Endpoint.RequestBulkAsync  ErrInUse without a credit, after a poll                  9 V
//	AM_GetXferM                Endpoint.Get               the handler runs at the caller                           3 M
//	AM_ReplyM, IM, XferM       Token.Reply and so on      at most one, from the request's handler                  9 V
//	(none)                     Token.Defer                the same, after the handler has returned
//	AM_GetSourceEndpoint       Token.Source               as the sender says                                       3 V
//	AM_GetDestEndpoint         Token.Endpoint                                                                      3 V
//	AM_GetMsgTag               Token.Tag                  of replies too                                           3 V
//
// # Providers
//
// Below the endpoints stands a provider, which carries messages and knows
// nothing of handlers (package internal/provider says what it promises). There are VIs,
// emulated LANai cards (package lanai), and memory for endpoints of the same node.
package endpoint
