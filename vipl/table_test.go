package vipl_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// viplCalls are the calls of VIPL 1.0, and what Giganet added.
var viplCalls = strings.Fields(`
	VipOpenNic VipCloseNic VipQueryNic
	VipCreateVi VipDestroyVi VipQueryVi VipSetViAttributes
	VipConnectWait VipConnectAccept VipConnectReject VipConnectRequest VipDisconnect
	VipConnectPeerRequest VipConnectPeerDone VipConnectPeerWait
	VipCreatePtag VipDestroyPtag VipRegisterMem VipDeregisterMem VipQueryMem VipSetMemAttributes
	VipPostSend VipPostRecv VipSendDone VipRecvDone VipSendWait VipRecvWait VipSendNotify VipRecvNotify
	VipCreateCQ VipDestroyCQ VipResizeCQ VipCQDone VipCQWait VipCQNotify
	VipErrorCallback VipQuerySystemManagementInfo
	VipNSInit VipNSShutdown VipNSGetHostByName VipNSGetHostByAddr
	VipGetUserData VipSetUserData VipAddTagCQ VipRemoveTagCQ VipPostDeferredSends`)

// row is a line of the table in the package comment.
var row = regexp.MustCompile(`^(Vip\w+) +([\w.]+) +(.*\S) +(\d+(?:\.\d+)?) ([VM])$`)

// TestTable: each call of VIPL stands in the package comment, once and in
// order, with the Go name of what does it, which exists.
func TestTable(t *testing.T) {
	if len(viplCalls) != 41+5 {
		t.Fatalf("%d calls, want 41 and 5", len(viplCalls))
	}
	names, doc := declared(t)
	var calls []string
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "Vip") {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a row of the table: %q", line)
			continue
		}
		calls = append(calls, m[1])
		if !names[m[2]] {
			t.Errorf("%s: the package has no %s", m[1], m[2])
		}
	}
	if !slices.Equal(calls, viplCalls) {
		t.Errorf("the table has\n%v\nwant\n%v", calls, viplCalls)
	}
}

// declared returns what the package exports, methods and fields as Type.Name,
// and its comment.
func declared(t *testing.T) (names map[string]bool, doc string) {
	files := token.NewFileSet()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names = map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil {
			doc += f.Doc.Text()
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if typ, ok := spec.(*ast.TypeSpec); ok {
						fields(names, typ)
					}
				}
			}
		}
	}
	return names, doc
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name + "."
	}
	return "?."
}

func fields(names map[string]bool, typ *ast.TypeSpec) {
	s, ok := typ.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			names[typ.Name.Name+"."+name.Name] = true
		}
	}
}
