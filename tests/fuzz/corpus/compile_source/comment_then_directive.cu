int a; /*
*/ #+ 4
