package mplite_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// mpi1 is every call of MPI 1.3, in the order of the standard's chapters.
const mpi1 = `
Send Recv Get_count Bsend Ssend Rsend Buffer_attach Buffer_detach Isend Ibsend Issend Irsend Irecv Wait Test Request_free
Waitany Testany Waitall Testall Waitsome Testsome Iprobe Probe Cancel Test_cancelled Send_init Bsend_init Ssend_init Rsend_init
Recv_init Start Startall Sendrecv Sendrecv_replace Type_contiguous Type_vector Type_hvector Type_indexed Type_hindexed Type_struct
Address Type_extent Type_size Type_lb Type_ub Type_commit Type_free Get_elements Pack Unpack Pack_size

Barrier Bcast Gather Gatherv Scatter Scatterv Allgather Allgatherv Alltoall Alltoallv Reduce Op_create Op_free Allreduce
Reduce_scatter Scan

Group_size Group_rank Group_translate_ranks Group_compare Comm_group Group_union Group_intersection Group_difference Group_incl
Group_excl Group_range_incl Group_range_excl Group_free Comm_size Comm_rank Comm_compare Comm_dup Comm_create Comm_split Comm_free
Comm_test_inter Comm_remote_size Comm_remote_group Intercomm_create Intercomm_merge Keyval_create Keyval_free Attr_put Attr_get
Attr_delete

Cart_create Dims_create Graph_create Topo_test Graphdims_get Graph_get Cartdim_get Cart_get Cart_rank Cart_coords
Graph_neighbors_count Graph_neighbors Cart_shift Cart_sub Cart_map Graph_map

Get_processor_name Get_version Errhandler_create Errhandler_set Errhandler_get Errhandler_free Error_string Error_class Wtime Wtick
Init Finalize Initialized Abort Pcontrol`

// TestTableOfCalls: the table has one row for each call of MPI-1, each row a
// Go name that exists, or a reason why there is none; and what the comment of a
// function says that it stands for is in the table, too.
func TestTableOfCalls(t *testing.T) {
	text, err := os.ReadFile("doc_mpi.go")
	check(t, err)
	row := regexp.MustCompile(`(?m)^//\t(MPI_\w+)( +)(-|[A-Z][\w.]*(?:, [A-Z][\w.]*)*)(?: +(\S.*))?$`)
	rows := map[string]bool{}
	names := exported(t)
	docs := map[string]bool{} // "call name" of each call that the comment of a function names
	for name, doc := range names {
		for _, call := range regexp.MustCompile(`MPI_[A-Z][a-z]\w*`).FindAllString(doc, -1) {
			docs[call+" "+name] = true
		}
	}
	for _, r := range row.FindAllStringSubmatch(string(text), -1) {
		call, name, note := r[1], r[3], r[4]
		if rows[call] {
			t.Errorf("%s has two rows", call)
		}
		rows[call] = true
		if name == "-" {
			if note == "" {
				t.Errorf("%s: nothing stands for it, and no reason is given", call)
			}
			continue
		}
		for one := range strings.SplitSeq(name, ", ") {
			if _, ok := names[one]; !ok {
				t.Errorf("%s: there is no %s in the package", call, one)
			}
			delete(docs, call+" "+one)
		}
	}
	for said := range docs {
		call, name, _ := strings.Cut(said, " ")
		t.Errorf("the comment of %s says that it is %s, the row of that does not", name, call)
	}
	for call := range strings.FieldsSeq(mpi1) {
		if !rows["MPI_"+call] {
			t.Errorf("MPI_%s has no row in doc_mpi.go", call)
		}
	}
	if lines := strings.Count(string(text), "//\tMPI_"); lines != len(rows) {
		t.Errorf("%d rows can be read, there are %d", len(rows), lines)
	}
}

// exported returns the names that the package exports: X, and T.X for a method or
// a field X of T; with the comments of functions and methods.
func exported(t *testing.T) map[string]string {
	names := map[string]string{}
	files, err := os.ReadDir(".")
	check(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ParseComments)
		check(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					names[receiver(d)+d.Name.Name] = d.Doc.Text()
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					declared(s, names)
				}
			}
		}
	}
	return names
}

// receiver returns "T." for a method of T, and nothing for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return "?."
		}
	}
}

func declared(s ast.Spec, names map[string]string) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			names[id.Name] = ""
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = ""
		if typ, ok := s.Type.(*ast.StructType); ok {
			for _, f := range typ.Fields.List {
				for _, id := range f.Names {
					names[s.Name.Name+"."+id.Name] = ""
				}
			}
		}
	}
}
