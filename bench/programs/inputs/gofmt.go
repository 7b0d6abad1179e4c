// A program in need of formatting.
package   main
import ("fmt";"strings"
 "sort")
type  point struct{ x,y int; name   string  // its label
}
func  (p point)String()string{return fmt.Sprintf("%s(%d,%d)",p.name,p.x,p.y)}
var table=map[string][]point{
"a":[]point{point{1,2,"one"},point{3,4,"two"}},
"long key":[]point{point{x:5,y:6,name:"three"}},}
func main(){
for i,_:=range []int{1,2,3}{if i%2==0{continue}else{fmt.Println( i )}}
s:=[]int{3,1,2}
sort.Slice(s,func(a,b int)bool{return s[a]<s[b]})
x := s[1:len(s)]
switch{case len(x)>1:fmt.Println(strings.Repeat("=",len(x)),table)
default:
/* nothing */}}
