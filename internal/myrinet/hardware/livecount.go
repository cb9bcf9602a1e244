package hardware

import "github.com/bobnet-go/bobnet/transport/myrinet"

// CableStats counts what one end of a live cable has seen of frames. What becomes of the
// packets is in PortStats. Each frame that came and was not passed on is in one counter
// from FramesLost downwards, except those that have done their work: credits, greetings.
type CableStats struct {
	FramesIn, FramesOut uint64 // of all kinds
	Hellos              uint64 // greetings of the neighbour
	Sessions            uint64 `metric:"bobnet_switch_sessions_total" help:"Sessions established with the other end of the cable."`
	Starved             uint64 // times that a frame had to wait for credit
	Full                uint64 // times that the link had no room for a frame

	FramesLost uint64 `metric:"bobnet_switch_lost_frames_total" help:"Frames lost on the cable."`
	Orphans    uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: parts of packets the beginning of which was lost or thrown away
	Twice      uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: frames that had come before, or were taken for lost
	NoRoom     uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: beyond the credit that the neighbour had
	Malformed  uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: no frame of the fabric, or one that says what cannot be
	Stale      uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: of an incarnation that is over
	Strangers  uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: of a station that is not the neighbour

	TooLong uint64 `metric:"bobnet_switch_dropped_packets_total"` // packets dropped: longer than LiveOptions.MaxPacket
}

// LivePort is a snapshot of one end of a live cable: a card's, or a port of a live switch.
type LivePort struct {
	Port      int    // of the switch; 0 for a card
	Interface string // what the cable is on; "" if no cable is plugged in
	Driver    string
	Up        bool   `metric:"bobnet_switch_port_up" help:"1 if the other end of the cable is present."`
	Neighbor  string // its address, MAC and port; "" if none is known
	MaxPacket int    // longest packet that passes, octets
	Part      int    // octets of a packet that a frame carries to the neighbour
	Slots     int    // frames that the buffer of the input holds
	Buffered  int    `metric:"bobnet_switch_buffered_frames" help:"Frames in the input buffer."`
	Credit    int    `metric:"bobnet_switch_credit_frames" help:"Frames that the credit allows to send now."`
	BlockedAt int64  // when the packet at the head began to wait, by the link's clock; 0 if none does
	Packets   myrinet.PortStats
	Frames    CableStats
}
