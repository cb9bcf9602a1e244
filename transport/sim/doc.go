// Package sim is an Ethernet segment in virtual time: a switch, stations that
// are transport.Links, and processes that use them. Everything that happens is
// decided by one seed, so that a failure can be played again, and an hour of
// timeouts takes no longer than its frames take to move.
//
//	w := sim.New(sim.Options{Seed: seed, Loss: 0.1})
//	a, b := w.Station("a"), w.Station("b")
//	w.Go("client", func() { ... a.Send(frames) ... a.Wait(deadline) ... })
//	w.Go("server", func() { ... b.Wait(transport.Forever) ... b.Recv(views) ... })
//	err := w.Run()
//
// # The segment
//
//	station          switch                        station
//	Send -> uplink ----Delay---> faults -> output -> Recv
//	        TxSlots     +Jitter            Queue     RxSlots
//	        Bandwidth                      Bandwidth
//
// Each station has an uplink, a queue with a serial line behind it. The switch
// has one such queue towards every station: when all send to one, that is the
// bottleneck, and what does not fit is lost. A frame to a group address goes
// to all other stations, each copy with faults of its own. A frame to its own
// sender goes nowhere, as on a real switch. Computing takes no virtual time.
//
// # Processes
//
// A process is a coroutine. Exactly one runs at a time, until it blocks in
// Station.Wait, World.Sleep or at a Place of its station; those that are ready run in the order in which
// they became so. When none is ready, the clock jumps to the next event. A test
// may end itself (testing.T.FailNow) from within a process.
//
// Without Run, the goroutine that owns the world may call Wait and Sleep too:
// the world then goes on, its processes with it, until the call returns.
package sim
