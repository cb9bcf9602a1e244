package mplite

import "testing"

// TestMeetingSigns: a rank that compares signatures of a call while another rank signs a later call in the same
// slot finds no conflict, and finds the later call's conflict.
func TestMeetingSigns(t *testing.T) {
	b := make([]byte, meetingSize(2))
	this, other := newMeeting(nil, b, 0, 2), newMeeting(nil, b, 1, 2)
	const turn, later = 1, 1 + meetSlots
	usual, odd := callSig{call: 1 << 40}, callSig{call: 1<<40 | 3<<32 | 5}
	this.post(turn, usual)
	other.post(turn, usual)
	if this.compare(turn); this.conflict.found {
		t.Fatalf("equal signatures differ: %+v", this.conflict)
	}
	other.sign(later, odd)
	if this.compareWith(1, turn); this.conflict.found {
		t.Fatalf("a signature that is being written is compared with an earlier call's: %+v", this.conflict)
	}
	other.post(later, odd)
	this.post(later, usual)
	if this.compareWith(1, later); !this.conflict.found || this.conflict.theirs != odd {
		t.Errorf("other signatures do not differ: %+v", this.conflict)
	}
}
