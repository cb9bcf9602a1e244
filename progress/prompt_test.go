package progress

import "testing"

// TestPrompt: a program that has been prompt often enough counts as such until it is late twice.
func TestPrompt(t *testing.T) {
	var p Prompt
	now := int64(1)
	post := func(after int64) bool {
		p.Got(now)
		now += after
		p.Posted(now, p.Take())
		return p.Is()
	}
	for i := range promptFrom {
		if post(PromptPost-1) != (i == promptFrom-1) {
			t.Fatalf("prompt after %d posts: %v", i+1, p.Is())
		}
	}
	for range PromptMost {
		post(1)
	}
	if p.Posted(now+PromptPost, p.Take()); !p.Is() {
		t.Error("late although it had got nothing since its last post")
	}
	if !post(PromptPost) || post(PromptPost) {
		t.Error("not prompt until it is late twice")
	}
}
