package memory

import "github.com/bobnet-go/bobnet/vipl/internal/code"

// tags are the protection tags of a table.
type tags struct {
	users map[Tag]int // number of regions and VIs with the tag
	last  Tag
}

// HasTag reports whether the tag exists.
func (t *Table) HasTag(p Tag) bool {
	_, ok := t.tags.users[p]
	return ok || p == 0
}

// UseTag adds by to the number of regions and VIs with the tag.
func (t *Table) UseTag(p Tag, by int) {
	if p != 0 {
		t.tags.users[p] += by
	}
}

// CreateTag creates a new tag. There are at most limit tags.
func (t *Table) CreateTag(limit int) (Tag, error) {
	if len(t.tags.users) >= limit {
		return 0, code.Error("create protection tag", code.ErrResource, "all %d tags are in use; destroy some", limit)
	}
	if t.tags.users == nil {
		t.tags.users = map[Tag]int{}
	}
	for t.tags.last++; t.HasTag(t.tags.last); t.tags.last++ { // after 2^32 of them
	}
	t.tags.users[t.tags.last] = 0
	return t.tags.last, nil
}

// DestroyTag deletes a tag. It fails with ErrResource while a region or a VI has it.
func (t *Table) DestroyTag(p Tag) error {
	users, ok := t.tags.users[p]
	switch {
	case !ok:
		return code.Error("destroy protection tag", code.ErrInvalidPtag, "tag %d does not exist", p)
	case users > 0:
		return code.Error("destroy protection tag", code.ErrResource, "tag %d is in use by %d regions and VIs", p, users)
	}
	delete(t.tags.users, p)
	return nil
}
