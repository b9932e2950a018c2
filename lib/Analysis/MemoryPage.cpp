//===- MemoryPage.cpp - Memory over a step, drawn -------------------------===//
//
// Offsets are real: a rectangle is a buffer at its place in the arena from its
// first to its last op, and above it the sum over time by category.
//
//===----------------------------------------------------------------------===//
#include "lib/Analysis/MemoryPage.h"

using namespace shale;

static const char *const kHead = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Shale memory plan</title>
<style>
body{font:14px/1.4 system-ui,sans-serif;margin:20px;max-width:1200px;color:#222}
h1{font-size:18px;margin:0 0 4px}table{border-collapse:collapse;margin:8px 0}td{padding:1px 12px 1px 0}
td.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;border:1px solid #ccc;background:#fff;display:block}
rect.t:hover,path.t:hover{stroke:#000;stroke-width:1.5;vector-effect:non-scaling-stroke}
#tip{position:fixed;pointer-events:none;background:#222;color:#fff;padding:6px 9px;border-radius:4px;font-size:12px;white-space:pre;display:none;z-index:9}
.key span{display:inline-block;margin-right:14px}.key i{display:inline-block;width:11px;height:11px;margin-right:4px}
select{font:inherit;margin:6px 0}
</style></head><body>
<h1>Memory of a rank</h1><div id="sum"></div>
<label>Function <select id="fn"></select></label><div class="key" id="key"></div>
<p>Live bytes over the step, by category; state and fixed costs below</p><svg id="area" viewBox="0 0 1000 300" preserveAspectRatio="none"></svg>
<p>The arena: each buffer at its offset, from its first to its last op</p><svg id="arena" viewBox="0 0 1000 420" preserveAspectRatio="none"></svg>
<table id="lines"></table><div id="tip"></div>
<script>const R=)html";

static const char *const kTail = R"html(;
const C={parameters:'#4878cf',gradients:'#d65f5f',optimizer:'#8c6bb1',activations:'#6acc65',communication:'#ee854a',workspace:'#b0a070',fixed:'#999'};
const NS='http://www.w3.org/2000/svg',$=id=>document.getElementById(id),tip=$('tip');
function bytes(b){const u=['B','KiB','MiB','GiB','TiB'];let i=0,v=b;while(v>=1024&&i<4){v/=1024;i++}return (i?v.toFixed(2):v)+' '+u[i]+(i?' ('+b+' bytes)':'')}
function el(svg,name,a){const e=document.createElementNS(NS,name);for(const k in a)e.setAttribute(k,a[k]);svg.appendChild(e);return e}
function hover(e,text){e.classList.add('t');e.addEventListener('mousemove',m=>{tip.textContent=typeof text==='function'?text(m):text;tip.style.display='block';
 tip.style.left=Math.min(m.clientX+14,innerWidth-tip.offsetWidth-8)+'px';tip.style.top=Math.min(m.clientY+14,innerHeight-tip.offsetHeight-8)+'px'});
 e.addEventListener('mouseleave',()=>tip.style.display='none')}
function about(t){return t.name+'\n'+(t.node?'node '+t.node+'\n':'')+bytes(t.bytes)+'\n'+t.category+(t.space==='state'?', all the time':', ops '+t.begin+' to '+t.end+', offset '+t.offset)}
$('sum').textContent='peak '+bytes(R.peak_bytes)+', '+R.ranks+' rank(s); state '+bytes(R.state_bytes)+', arena '+bytes(R.arena_bytes);
for(const c in C){const s=document.createElement('span'),i=document.createElement('i');i.style.background=C[c];s.append(i,c);$('key').append(s)}
for(const l of R.lines){const r=$('lines').insertRow();r.insertCell().textContent=l.category;const n=r.insertCell();n.className='n';n.textContent=l.bytes;r.insertCell().textContent=l.what}
R.functions.forEach((f,i)=>{const o=document.createElement('option');o.value=i;o.textContent='@'+f.name+', '+bytes(f.peak_bytes);$('fn').append(o)});
function draw(){const f=R.functions[$('fn').value],n=Math.max(f.ops.length,1),area=$('area'),arena=$('arena');area.replaceChildren();arena.replaceChildren();
 const first=f.tensors.reduce((s,t)=>Math.min(s,t.begin),n-1),X=p=>1000*(p-first)/(n-first);
 // Bands: what is there all the time, then each category's sum by position.
 const base={};for(const t of R.state)base[t.category]=(base[t.category]||0)+t.bytes;
 for(const l of R.lines)if(!/arena|at rest|optimizer state|alignment/.test(l.what))base[l.category]=(base[l.category]||0)+l.bytes;
 const live={};for(const c in C)live[c]=new Float64Array(n+1).fill(0);
 for(const t of f.tensors){const d=live[t.category];d[t.begin]+=t.bytes;if(t.end+1<=n)d[t.end+1]-=t.bytes}
 for(const c in C){let s=0;for(let p=0;p<=n;p++){s+=live[c][p];live[c][p]=s+(base[c]||0)}}
 const order=['fixed','workspace','optimizer','parameters','gradients','communication','activations'],low=new Float64Array(n+1);let top=0;
 for(let p=0;p<n;p++){let s=0;for(const c of order)s+=live[c][p];top=Math.max(top,s)}
 const Y=b=>296-290*b/Math.max(top,1);
 for(const c of order){let up='',down='';for(let p=first;p<n;p++){const a=low[p],b=a+live[c][p];up+='L'+X(p).toFixed(2)+' '+Y(b).toFixed(2)+'L'+X(p+1).toFixed(2)+' '+Y(b).toFixed(2);
   down='L'+X(p+1).toFixed(2)+' '+Y(a).toFixed(2)+'L'+X(p).toFixed(2)+' '+Y(a).toFixed(2)+down;low[p]=b}
  const e=el(area,'path',{d:'M'+up.slice(1)+down+'Z',fill:C[c]});
  hover(e,m=>{const r=area.getBoundingClientRect(),p=Math.min(n-1,Math.max(0,first+Math.floor((n-first)*(m.clientX-r.left)/r.width)));
   const big=(c==='optimizer'||c==='parameters'?R.state:[]).concat(f.tensors).filter(t=>t.category===c&&(t.space==='state'||(t.begin<=p&&p<=t.end))).sort((a,b)=>b.bytes-a.bytes).slice(0,5);
   return c+', op '+p+(f.ops[p]?' (node '+f.ops[p]+')':'')+': '+bytes(live[c][p])+big.map(t=>'\n  '+bytes(t.bytes)+'  '+t.name+(t.node?' <- '+t.node:'')).join('')})}
 const x=X(f.peak+.5);el(area,'line',{x1:x,x2:x,y1:0,y2:300,stroke:'#000','stroke-dasharray':'4 3','vector-effect':'non-scaling-stroke'});
 for(const t of f.tensors){const y=416-412*(t.offset+t.bytes)/Math.max(R.arena_bytes,1);
  hover(el(arena,'rect',{class:'t',x:X(t.begin),y:y,width:Math.max(X(t.end+1)-X(t.begin),.3),height:Math.max(412*t.bytes/Math.max(R.arena_bytes,1),.3),fill:C[t.category],stroke:'#fff','stroke-width':.3,'vector-effect':'non-scaling-stroke'}),about(t))}
 el(arena,'line',{x1:x,x2:x,y1:0,y2:420,stroke:'#000','stroke-dasharray':'4 3','vector-effect':'non-scaling-stroke'})}
$('fn').addEventListener('change',draw);draw();
</script></body></html>
)html";

void shale::writeMemoryPage(const llvm::json::Value &report, llvm::raw_ostream &os) {
  std::string text;
  llvm::raw_string_ostream(text) << report;
  // A tensor's name must not end the script.
  os << kHead;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '<')
      os << "\\u003c";
    else
      os << text[i];
  os << kTail;
}
