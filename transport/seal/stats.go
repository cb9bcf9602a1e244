package seal

import "sync/atomic"

// Stats counts what a link has done since it was opened. Every frame that arrived and was
// not passed on is in exactly one of the counters from Unsealed to Malformed, or was part of
// a handshake. A long frame of which only the beginning is genuine is in Opened and in Altered: its beginning
// was passed on.
type Stats struct {
	Sessions  uint64 // that were made, on either side
	Opened    uint64 // frames that were passed on
	Sealed    uint64 // frames that were sent
	Handshake uint64 // frames of handshakes and notices that arrived and were in order
	Unsealed  uint64 // frames of a program that has no key
	OtherKey  uint64 // handshakes, or frames to all, under a key that is none of ours
	Altered   uint64 // frames of a session of which a tag is wrong
	Replayed  uint64 // frames, handshakes and cookies that came before, or too late to tell
	NoSession uint64 // frames of sessions that are not known, or no more
	Foreign   uint64 // frames whose addresses are not those of their session, or that are for nobody
	Malformed uint64 // frames too short for their kind, or whose inside contradicts their outside
	Refused   uint64 // notices that somebody could not open what this link had sent
	Expired   uint64 // own frames that waited for a session in vain
	Crowded   uint64 // own frames for which there was no room to wait, and frames of handshakes
}

// Dropped returns how many frames arrived and were not passed on, without those of handshakes.
func (s *Stats) Dropped() uint64 {
	return s.Unsealed + s.OtherKey + s.Altered + s.Replayed + s.NoSession + s.Foreign + s.Malformed
}

// counters is Stats while they count.
type counters struct {
	sessions, opened, sealed, handshake                                                    atomic.Uint64
	unsealed, otherKey, altered, replayed, noSession, foreign, malformed                   atomic.Uint64
	refused, expired, crowded                                                              atomic.Uint64
	ownTx, ownTxBytes, ownTxCalls, ownRx, ownRxBytes, ownRxCalls, moreTxBytes, moreRxBytes atomic.Uint64 // for Link.Stats
}

func (c *counters) stats() Stats {
	return Stats{
		Sessions: c.sessions.Load(), Opened: c.opened.Load(), Sealed: c.sealed.Load(), Handshake: c.handshake.Load(),
		Unsealed: c.unsealed.Load(), OtherKey: c.otherKey.Load(), Altered: c.altered.Load(), Replayed: c.replayed.Load(),
		NoSession: c.noSession.Load(), Foreign: c.foreign.Load(), Malformed: c.malformed.Load(),
		Refused: c.refused.Load(), Expired: c.expired.Load(), Crowded: c.crowded.Load(),
	}
}
